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

TEST(ClientNameTest, PlaceOfAMountIsItsHostAndMountPoint) {
  const std::string tag = "/0123456789abcdef0123456789abcdef";
  const ClientPlace place = ClientPlaceOf("files1:/mnt/a:/b\n" + tag);
  EXPECT_EQ(place.host, "files1");
  EXPECT_EQ(place.mount_point, "/mnt/a:/b\\n");
  for (const std::string& other :
       {"files1:/mnt/data" + std::string(), "x" + tag, tag, std::string()}) {
    EXPECT_EQ(ClientPlaceOf(other).host, "") << other;
    EXPECT_EQ(ClientPlaceOf(other).mount_point, "") << other;
  }
}

TEST(ClientNameTest, ArbitraryBytesMakeOneShortLine) {
  EXPECT_EQ(ClientName("a\nb\xff"), "a\\nb\\xff");
  EXPECT_EQ(ClientName(std::string(1000, 'x')), std::string(80, 'x'));
}

}  // namespace
}  // namespace dafs::server
