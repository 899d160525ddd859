// What the table of opens remembers of opens that have ended.
#include "server/store/holdings/past_state_ids.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace dafs::server {
namespace {

wire::ClientId Client(uint64_t number) { return wire::OpaqueFromUint64<wire::ClientId>(number); }

TEST(PastStateIdsTest, TheLastClosedOpensAreRemembered) {
  PastStateIds past;
  EXPECT_EQ(past.OwnerOfClosed(1), nullptr);
  for (uint64_t serial = 1; serial <= PastStateIds::kClosedMax + 1; ++serial) {
    past.AddClosed(serial, {.client_id = Client(serial), .owner = "owner", .key = {}});
  }
  EXPECT_EQ(past.OwnerOfClosed(1), nullptr);
  for (uint64_t serial = 2; serial <= PastStateIds::kClosedMax + 1; ++serial) {
    const OpenOwner* const owner = past.OwnerOfClosed(serial);
    ASSERT_NE(owner, nullptr) << serial;
    EXPECT_EQ(owner->client_id, Client(serial));
  }
}

TEST(PastStateIdsTest, AllStateIdsOfARevokedClientAreRevoked) {
  PastStateIds past;
  past.Revoke(Client(1));
  EXPECT_TRUE(past.IsRevoked(Client(1), 1));
  EXPECT_TRUE(past.IsRevoked(Client(1), 2));
  EXPECT_FALSE(past.IsRevoked(Client(2), 1));
}

TEST(PastStateIdsTest, ADelegationIsRevokedByItself) {
  PastStateIds past;
  past.RevokeDelegation(1);
  EXPECT_TRUE(past.IsRevoked(Client(1), 1));
  EXPECT_FALSE(past.IsRevoked(Client(1), 2));
}

TEST(PastStateIdsTest, TheMemoryForRevocationsIsBounded) {
  PastStateIds past;
  for (uint64_t serial = 1; serial <= PastStateIds::kRevokedMax + 1; ++serial) {
    past.RevokeDelegation(serial);
  }
  EXPECT_FALSE(past.IsRevoked(Client(1), 1));
  EXPECT_TRUE(past.IsRevoked(Client(1), PastStateIds::kRevokedMax + 1));
}

}  // namespace
}  // namespace dafs::server
