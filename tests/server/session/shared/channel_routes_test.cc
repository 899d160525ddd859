// How the private data of a connection request identifies the channel.
#include "server/session/shared/channel_routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "wire/protocol/constants.h"

namespace dafs::server {
namespace {

using PrivateData = std::array<std::byte, 16>;

// WIRE 11.1, in the byte order of the client.
PrivateData Of(bool big_endian, uint8_t session, uint8_t channel_type) {
  PrivateData data{};
  const char* magic = big_endian ? "DAFS" : "SFAD";
  for (size_t i = 0; i < 4; ++i) data[i] = static_cast<std::byte>(magic[i]);
  data[11] = std::byte{session};
  data[big_endian ? 15 : 12] = std::byte{channel_type};
  return data;
}

// Shows DAFS-3.1.2.3.6-01: the server distinguishes Operations Channels from others, and assigns
// the others to their session.
TEST(ChannelRoutesTest, PrivateDataIdentifiesSessionAndChannel) {
  for (const bool big_endian : {false, true}) {
    const auto operation = ChannelRoutes::Read("host", Of(big_endian, 1, wire::kChannelOperation));
    const auto back = ChannelRoutes::Read("host", Of(big_endian, 1, wire::kChannelBackControl));
    const auto read = ChannelRoutes::Read("host", Of(big_endian, 1, wire::kChannelRdmaRead));
    ASSERT_TRUE(operation && back && read);
    EXPECT_TRUE(operation->operation);
    EXPECT_FALSE(back->operation);
    EXPECT_FALSE(read->operation);
    EXPECT_EQ(back->session, operation->session);
    EXPECT_EQ(read->session, operation->session);
    EXPECT_NE(ChannelRoutes::Read("other", Of(big_endian, 1, 1))->session, operation->session);
    EXPECT_NE(ChannelRoutes::Read("host", Of(big_endian, 2, 1))->session, operation->session);
  }
}

// WIRE 11.1: bytes after the first 16 are ignored. Private data of another form identifies nothing.
TEST(ChannelRoutesTest, OtherPrivateDataIdentifiesNothing) {
  const PrivateData ours = Of(true, 1, 1);
  EXPECT_FALSE(ChannelRoutes::Read("host", {}));
  EXPECT_FALSE(ChannelRoutes::Read("host", std::span(ours).first(15)));
  PrivateData other = ours;
  other[0] = std::byte{'d'};
  EXPECT_FALSE(ChannelRoutes::Read("host", other));
  std::array<std::byte, 40> longer{};
  std::copy(ours.begin(), ours.end(), longer.begin());
  EXPECT_TRUE(ChannelRoutes::Read("host", longer));
}

TEST(ChannelRoutesTest, OldestSessionsAreForgotten) {
  ChannelRoutes routes;
  for (size_t i = 0; i <= ChannelRoutes::kMost; ++i) routes.Remember(std::to_string(i), i % 7);
  EXPECT_FALSE(routes.Find("0"));
  EXPECT_EQ(routes.Find("1"), 1u);
  routes.Remember("1", 5);
  EXPECT_EQ(routes.Find("1"), 5u);
  EXPECT_EQ(routes.Find(std::to_string(ChannelRoutes::kMost)), ChannelRoutes::kMost % 7);
}

}  // namespace
}  // namespace dafs::server
