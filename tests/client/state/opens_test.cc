#include "client/state/opens.h"

#include <gtest/gtest.h>

namespace dafs::client {
namespace {

using wire::ClientId;
using wire::StateId;

StateId State(uint64_t number) { return wire::OpaqueFromUint64<StateId>(number); }

// The opens of a client that continues after a kill: one open, which the killed program had got
// from the first instance of the server.
class RestoredOpensTest : public ::testing::Test {
 protected:
  RestoredOpensTest() {
    Opens::Saved saved{.last_name = 1, .entries = {}};
    saved.entries.emplace_back(kName, Opens::Entry{.info = std::make_shared<const OpenInfo>(Info()),
                                                   .state_id = kFirst,
                                                   .client_id = kFirstClient,
                                                   .lost = absl::OkStatus()});
    EXPECT_TRUE(opens_.Restore(std::move(saved)));
    opens_.SetClient(kSecondClient);
  }
  static OpenInfo Info() {
    OpenInfo info;
    info.handle.fileid.bytes[0] = 7;
    info.owner = "request 5";
    info.share_access = wire::kShareRead;
    return info;
  }

  const StateId kName = State(1);
  const StateId kFirst = State(101);
  const StateId kSecond = State(201);
  const ClientId kFirstClient = wire::OpaqueFromUint64<ClientId>(1);
  const ClientId kSecondClient = wire::OpaqueFromUint64<ClientId>(2);
  Opens opens_;
};

// Its stored response is older than the reclaim.
TEST_F(RestoredOpensTest, RepeatedOpenIsTheReclaimedOne) {
  EXPECT_TRUE(opens_.Reclaimed(kName, kSecond, kSecondClient));
  EXPECT_EQ(opens_.Add(Info(), kFirst, kFirstClient), kName);
  EXPECT_EQ(opens_.size(), 1u);
  EXPECT_EQ(opens_.StateIdOf(kName, kSecondClient), kSecond);
  EXPECT_TRUE(opens_.HasStateId(kSecond));
}

TEST_F(RestoredOpensTest, RepeatedOpenNeedsNoReclaim) {
  EXPECT_EQ(opens_.Add(Info(), kSecond, kSecondClient), kName);
  EXPECT_EQ(opens_.StateIdOf(kName, kSecondClient), kSecond);
  EXPECT_FALSE(opens_.HasStateId(kFirst));
  EXPECT_TRUE(opens_.Stale(kSecondClient).empty());
}

TEST_F(RestoredOpensTest, OtherOwnerAndClosedOpenAreOthers) {
  OpenInfo other = Info();
  other.owner = "request 6";
  EXPECT_NE(opens_.Add(other, kSecond, kSecondClient), kName);
  EXPECT_TRUE(opens_.Remove(kName).has_value());
  EXPECT_NE(opens_.Add(Info(), State(202), kSecondClient), kName);
}

TEST_F(RestoredOpensTest, MergedOpenKeepsItsStateId) {
  OpenInfo other = Info();
  other.owner = "request 6";
  const StateId kept = opens_.Add(other, kSecond, kSecondClient);
  EXPECT_TRUE(opens_.Reclaimed(kName, kSecond, kSecondClient));
  opens_.Merge(kName, kept);
  EXPECT_FALSE(opens_.Find(kName).has_value());
  EXPECT_TRUE(opens_.HasStateId(kSecond));
  opens_.Merge(kept, kept);
  EXPECT_TRUE(opens_.Find(kept).has_value());
}

}  // namespace
}  // namespace dafs::client
