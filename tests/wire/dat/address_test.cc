#include "wire/dat/address.h"

#include <gtest/gtest.h>

namespace dafs::dat {
namespace {

void ExpectSplit(const std::string& text, const std::string& host, uint16_t port) {
  std::string got_host;
  uint16_t got_port = kDefaultPort;
  const absl::Status status = SplitHostPort(text, &got_host, &got_port);
  EXPECT_TRUE(status.ok()) << text << ": " << status;
  EXPECT_EQ(got_host, host) << text;
  EXPECT_EQ(got_port, port) << text;
}

void ExpectRefused(const std::string& text) {
  std::string host = "kept";
  uint16_t port = 5;
  EXPECT_TRUE(absl::IsInvalidArgument(SplitHostPort(text, &host, &port))) << text;
}

TEST(SplitHostPort, ParsesNamesAndAddressesWithAndWithoutPort) {
  ExpectSplit("server", "server", kDefaultPort);
  ExpectSplit("server:1", "server", 1);
  ExpectSplit("127.0.0.1:65535", "127.0.0.1", 65535);
  ExpectSplit("[::1]", "::1", kDefaultPort);
  ExpectSplit("[fe80::1%lo]:20149", "fe80::1%lo", 20149);
}

TEST(SplitHostPort, RefusesInvalidAddresses) {
  for (const char* text : {"", ":1", "[]:1", "[::1", "[::1]x", "::1", "host:", "host:x", "host:1x",
                           "host:65536", "host:-1", "host:+1", "host: 1"}) {
    ExpectRefused(text);
  }
}

TEST(ResolveHost, ReturnsNumericAddressesWithTheirPort) {
  const auto v4 = ResolveHost("127.0.0.1", 20149);
  ASSERT_TRUE(v4.ok()) << v4.status();
  ASSERT_EQ(v4->size(), 1u);
  EXPECT_EQ(v4->front().ToString(), "127.0.0.1:20149");
  EXPECT_TRUE(v4->front().is_loopback());
  EXPECT_EQ(v4->front().port(), 20149);
  const auto v6 = ResolveHost("::1", 7);
  ASSERT_TRUE(v6.ok()) << v6.status();
  EXPECT_EQ(v6->front().ToString(), "[::1]:7");
  EXPECT_TRUE(v6->front().is_loopback());
  const auto far = ResolveHost("192.0.2.1", 7);
  ASSERT_TRUE(far.ok());
  EXPECT_FALSE(far->front().is_loopback());
}

TEST(ResolveHost, UnknownNameIsAnError) {
  const auto none = ResolveHost("no-such-host.invalid", 1);
  EXPECT_FALSE(none.ok());
}

TEST(Address, ChangesItsPortAndComparesByValue) {
  Address one = ResolveHost("127.0.0.1", 1)->front();
  Address other = one;
  EXPECT_EQ(one, other);
  other.set_port(2);
  EXPECT_FALSE(one == other);
  EXPECT_EQ(other.ToString(), "127.0.0.1:2");
  EXPECT_EQ(Address().ToString(), "(no address)");
}

}  // namespace
}  // namespace dafs::dat
