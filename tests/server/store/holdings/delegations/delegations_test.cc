// The table of delegations: what may be granted, what is recalled, and what waits for that.
#include "server/store/holdings/delegations/delegations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/loop/loop.h"
#include "tests/server/store/holdings/delegations/delegations_fixture.h"

namespace dafs::server {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

using DelegationsTest = DelegationsFixture;

TEST_F(DelegationsTest, ManyReadOrOneWriteDelegation) {
  EXPECT_TRUE(MayGet(1, 1));
  EXPECT_TRUE(MayGet(1, 1, Type::kRead));
  Add(1, 1);
  EXPECT_TRUE(MayGet(1, 2, Type::kRead));
  EXPECT_FALSE(MayGet(1, 2, Type::kWrite));
  EXPECT_FALSE(MayGet(1, 1, Type::kRead)) << "it has one already";
  Add(2, 1, Type::kWrite);
  EXPECT_FALSE(MayGet(2, 2));
}

TEST_F(DelegationsTest, AReadDelegationOfOneClientBecomesAWriteDelegation) {
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_)) << "it has none";
  const wire::StateId first = Add(1, 1);
  const wire::StateId second = Add(1, 2);
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_)) << "another has one";
  table_.Remove(second);
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(2), now_));
  const auto upgraded = table_.Upgrade(Key(1), Id(1), now_);
  ASSERT_TRUE(upgraded.has_value());
  EXPECT_EQ(upgraded->state_id, first);
  EXPECT_EQ(upgraded->type, Type::kWrite);
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_)) << "it is one already";
  EXPECT_TRUE(table_.Downgrade(first));
  EXPECT_TRUE(IsFree(1, 2, Use::kReads));
  EXPECT_TRUE(table_.Upgrade(Key(1), Id(1), now_));
  EXPECT_FALSE(IsFree(1, 2, Use::kReads));
  EXPECT_FALSE(table_.Downgrade(first)) << "it is being recalled";
  EXPECT_FALSE(table_.Downgrade(second)) << "it has ended";
}

TEST_F(DelegationsTest, NoUpgradeWhileItIsRecalledOrAfterARecall) {
  const wire::StateId first = Add(1, 1);
  EXPECT_FALSE(IsFree(1, 2, Use::kWrites));
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_ + RecentRecalls::kNotAgainFor));
  table_.Remove(first);
  Add(1, 1);
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_));
  EXPECT_TRUE(table_.Upgrade(Key(1), Id(1), now_ + 2 * RecentRecalls::kNotAgainFor));
}

TEST_F(DelegationsTest, OnlyAnAdmittedClientGetsOne) {
  EXPECT_FALSE(MayGet(1, 9));
  admitted_.Forget(Id(1));
  EXPECT_FALSE(MayGet(1, 1));
}

TEST_F(DelegationsTest, NoneIsGrantedIfTheOptionsForbidIt) {
  Delegations none({.most = Type::kNone}, records_);
  none.SetRecaller([](const auto&) {});
  EXPECT_FALSE(none.MayAdd(Key(1), Id(1), Type::kRead, now_));
}

TEST_F(DelegationsTest, ReadsConflictWithWriteDelegationsOfOthers) {
  Add(1, 1);
  EXPECT_TRUE(IsFree(1, 2, Use::kReads));
  EXPECT_TRUE(IsFree(1, 1, Use::kWrites));
  Add(2, 1, Type::kWrite);
  EXPECT_TRUE(IsFree(2, 1, Use::kWrites));
  EXPECT_TRUE(IsFree(3, 2, Use::kWrites));
  EXPECT_THAT(recalls_, IsEmpty());
  EXPECT_FALSE(IsFree(2, 2, Use::kReads));
  EXPECT_THAT(awaited_, SizeIs(1));
  EXPECT_THAT(recalls_, SizeIs(1));
}

// All holders are recalled, each once, and each request that conflicts waits for each of them.
TEST_F(DelegationsTest, AChangeRecallsEachHolderOnceAndWaitsForAll) {
  const auto first = Add(1, 1), second = Add(1, 2);
  EXPECT_FALSE(IsFree(1, 3, Use::kWrites));
  EXPECT_THAT(awaited_, SizeIs(2));
  EXPECT_THAT(recalls_, SizeIs(2));
  EXPECT_EQ(recalls_[0].client_name, "client");
  int ended = 0;
  for (const auto& awaited : awaited_) table_.Await(awaited, [&] { ++ended; });
  EXPECT_FALSE(IsFree(1, 3, Use::kWrites));
  EXPECT_THAT(recalls_, SizeIs(2));
  EXPECT_THAT(table_.RecallsOf(Id(1)), SizeIs(1));
  table_.Remove(first);
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(IsFree(1, 3, Use::kWrites));
  table_.Remove(second);
  EXPECT_EQ(ended, 2);
  EXPECT_TRUE(IsFree(1, 3, Use::kWrites));
  table_.Await({second}, [&] { ++ended; });
  EXPECT_EQ(ended, 3) << "it has ended";
}

TEST_F(DelegationsTest, NoDelegationForAWhileAfterARecall) {
  const auto state_id = Add(1, 1);
  EXPECT_FALSE(IsFree(1, 2, Use::kWrites));
  table_.Remove(state_id);
  now_ = Loop::Now() + absl::Seconds(1);
  EXPECT_FALSE(MayGet(1, 3));
  now_ += RecentRecalls::kNotAgainFor;
  EXPECT_TRUE(MayGet(1, 3));
}

TEST_F(DelegationsTest, RecallsAreTimedForEachClient) {
  const auto first = Add(1, 1), second = Add(2, 2);
  IsFree(1, 3, Use::kWrites);
  IsFree(2, 3, Use::kWrites);
  EXPECT_EQ(table_.GetCounts().recalls.begun, 2u);
  EXPECT_EQ(table_.GetCounts().recalls.ended, 0u);
  table_.Remove(first);
  table_.NoteRevoked(second);
  table_.Remove(second);
  table_.Remove(Add(3, 1));
  const RecallTimes all = table_.GetCounts().recalls;
  EXPECT_EQ(all.ended, 2u);
  EXPECT_EQ(all.revoked, 1u);
  EXPECT_GT(all.longest, absl::ZeroDuration());
  EXPECT_LE(all.mean(), all.longest);
  EXPECT_EQ(table_.RecallTimesOf(Id(1)).ended, 1u);
  EXPECT_EQ(table_.RecallTimesOf(Id(1)).revoked, 0u);
  EXPECT_EQ(table_.RecallTimesOf(Id(2)).revoked, 1u);
  EXPECT_EQ(table_.RecallTimesOf(Id(9)).begun, 0u);
}

TEST_F(DelegationsTest, TheOldestIsRecalledIfAClientHasTooMany) {
  const auto oldest = Add(1, 1);
  Add(2, 1);
  Add(3, 1);
  EXPECT_FALSE(MayGet(4, 1));
  ASSERT_THAT(recalls_, SizeIs(1));
  EXPECT_EQ(recalls_[0].state_id, oldest);
  EXPECT_FALSE(MayGet(4, 1));
  EXPECT_EQ(recalls_[1].key, Key(2));
  EXPECT_TRUE(MayGet(4, 2)) << "the limit is of one client";
  table_.Remove(oldest);
  EXPECT_TRUE(MayGet(4, 1));
}

}  // namespace
}  // namespace dafs::server
