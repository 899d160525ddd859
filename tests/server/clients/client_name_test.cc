// How log lines name a client.
#include "server/clients/client_name.h"

#include <gtest/gtest.h>

#include <string>

namespace dafs::server {
namespace {

TEST(ClientNameTest, OmitsTheTagOfAMount) {
  const std::string tag = "/0123456789abcdef0123456789abcdef";
  EXPECT_EQ(ClientName("files1:/mnt/data" + tag), "files1:/mnt/data");
  EXPECT_EQ(ClientName("files1:/mnt/data#1" + tag), "files1:/mnt/data#1");
}

TEST(ClientNameTest, ShowsAnyOtherNameUnchanged) {
  EXPECT_EQ(ClientName(""), "");
  EXPECT_EQ(ClientName("a/b"), "a/b");
  EXPECT_EQ(ClientName("x/0123456789abcdef0123456789abcdeg"), "x/0123456789abcdef0123456789abcdeg");
  EXPECT_EQ(ClientName("/0123456789abcdef0123456789abcdef"), "/0123456789abcdef0123456789abcdef");
}

TEST(ClientNameTest, ArbitraryBytesMakeOneShortLine) {
  EXPECT_EQ(ClientName("a\nb\xff"), "a\\nb\\xff");
  EXPECT_EQ(ClientName(std::string(1000, 'x')), std::string(80, 'x'));
}

}  // namespace
}  // namespace dafs::server
