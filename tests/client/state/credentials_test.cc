// The table of credential handles.
#include "client/state/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace dafs::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

wire::CredHandle Handle(uint8_t n) {
  wire::CredHandle handle;
  handle.bytes[0] = n;
  return handle;
}

const auto kClient = wire::OpaqueFromUint64<wire::ClientId>(1);

TEST(CredentialsTest, KeepsTheMostRecentlyUsed) {
  Credentials table;
  Identity a{1, 1, {}}, b{2, 2, {2}}, c{3, 3, {}};
  EXPECT_THAT(table.Insert(kClient, a, Handle(1), 2), IsEmpty());
  EXPECT_THAT(table.Insert(kClient, b, Handle(2), 2), IsEmpty());
  EXPECT_EQ(table.Find(kClient, a), Handle(1));
  EXPECT_THAT(table.Insert(kClient, c, Handle(3), 2), ElementsAre(Handle(2)));
  EXPECT_EQ(table.Find(kClient, b), std::nullopt);
  EXPECT_EQ(table.TakeOldest(), Handle(1));
  table.Forget(Handle(3));
  EXPECT_EQ(table.size(), 0u);
}

TEST(CredentialsTest, FirstHandleOfAnIdentityIsKept) {
  Credentials table;
  Identity a{1, 1, {5, 6}};
  EXPECT_THAT(table.Insert(kClient, a, Handle(1), 9), IsEmpty());
  EXPECT_THAT(table.Insert(kClient, a, Handle(2), 9), ElementsAre(Handle(2)));
  EXPECT_EQ(table.Find(kClient, a), Handle(1));
  Identity other_groups{1, 1, {5}};
  EXPECT_EQ(table.Find(kClient, other_groups), std::nullopt);
}

TEST(CredentialsTest, HandlesBelongToOneClientId) {
  Credentials table;
  Identity a{1, 1, {}};
  table.Insert(kClient, a, Handle(1), 9);
  const auto other = wire::OpaqueFromUint64<wire::ClientId>(2);
  EXPECT_EQ(table.Find(other, a), std::nullopt);
  EXPECT_THAT(table.Insert(other, a, Handle(7), 9), IsEmpty());
  EXPECT_EQ(table.Find(other, a), Handle(7));
  EXPECT_EQ(table.Find(kClient, a), std::nullopt);
}

}  // namespace
}  // namespace dafs::client
