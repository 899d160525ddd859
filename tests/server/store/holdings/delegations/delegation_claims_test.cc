// What the later instance of a client may claim of the delegations of the earlier one.
#include "server/store/holdings/delegations/delegation_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/store/holdings/delegations/delegations_fixture.h"

namespace dafs::server {
namespace {

using testing::SizeIs;

class DelegationClaimsTest : public DelegationsFixture {
 protected:
  DelegationClaims claims_{records_};
};

TEST_F(DelegationClaimsTest, ALaterInstanceMayClaimTheWriteDelegations) {
  const auto read = Add(1, 1), write = Add(2, 1, Type::kWrite);
  claims_.Supersede(Id(1), Id(7), "client", now_ + absl::Seconds(60));
  table_.Remove(read);  // the opens of the earlier instance are closed
  table_.Remove(write);
  admitted_.Forget(Id(1));
  EXPECT_FALSE(claims_.MayClaim(Key(1), Id(7), now_));
  EXPECT_TRUE(claims_.MayClaim(Key(2), Id(7), now_));
  EXPECT_FALSE(claims_.MayClaim(Key(2), Id(2), now_));
  EXPECT_FALSE(claims_.MayClaim(Key(2), Id(7), now_ + absl::Seconds(60)));
  EXPECT_TRUE(IsFree(2, 7, Use::kWrites));
  EXPECT_FALSE(IsFree(2, 2, Use::kReads));
  ASSERT_THAT(recalls_, SizeIs(1));
  EXPECT_FALSE(recalls_[0].has_holder);
  bool ended = false;
  table_.Await(awaited_[0], [&] { ended = true; });
  claims_.Claimed(Key(2), Id(7));
  EXPECT_TRUE(ended);
  EXPECT_FALSE(claims_.MayClaim(Key(2), Id(7), now_));
}

TEST_F(DelegationClaimsTest, ClaimsEndByPurgeAndByTime) {
  Add(1, 1, Type::kWrite);
  Add(2, 2, Type::kWrite);
  claims_.Supersede(Id(1), Id(7), "client", now_ + absl::Seconds(60));
  claims_.Supersede(Id(2), Id(8), "client", now_ + absl::Seconds(60));
  claims_.Purge(Id(7));
  EXPECT_FALSE(claims_.MayClaim(Key(1), Id(7), now_));
  EXPECT_TRUE(IsFree(1, 3, Use::kWrites));
  EXPECT_TRUE(claims_.MayClaim(Key(2), Id(8), now_));
  claims_.EndOverdue(now_ + absl::Seconds(60));
  EXPECT_TRUE(IsFree(2, 3, Use::kWrites));
  EXPECT_EQ(table_.GetCounts().held, 0u);
}

TEST_F(DelegationClaimsTest, OnlyADelegationThatAwaitsAClaimEndsAsOne) {
  const auto held = Add(1, 1, Type::kWrite), left = Add(2, 2, Type::kWrite);
  claims_.Supersede(Id(2), Id(8), "client", now_ + absl::Seconds(60));
  EXPECT_FALSE(claims_.End(held));
  EXPECT_TRUE(claims_.End(left));
  EXPECT_FALSE(claims_.End(left)) << "it has ended";
  EXPECT_TRUE(table_.Holds(held));
}

}  // namespace
}  // namespace dafs::server
