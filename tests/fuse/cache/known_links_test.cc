// Names of links that may be used to answer a call that only looks, without a request.
#include "fuse/cache/known_links.h"

#include <string>

#include "gtest/gtest.h"

namespace dafs::fuse {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);
const absl::Time kUntil = kNow + absl::Seconds(3);

TEST(KnownLinksTest, ANameIsKnownUntilItExpiresOrLeadsToAnotherNode) {
  KnownLinks links;
  EXPECT_EQ(links.Find({1, "a"}, kNow).nodeid, 0u);
  links.Told({1, "a"}, {7, kNow, kUntil});
  EXPECT_EQ(links.Find({1, "a"}, kNow).nodeid, 7u);
  EXPECT_EQ(links.Find({2, "a"}, kNow).nodeid, 0u);
  EXPECT_EQ(links.Find({1, "a"}, kUntil).nodeid, 0u);
  links.Told({1, "a"}, {8, kNow, kUntil});
  EXPECT_EQ(links.Find({1, "a"}, kNow).nodeid, 8u);
}

TEST(KnownLinksTest, TheNumberOfNamesIsBounded) {
  KnownLinks links;
  for (size_t i = 0; i <= KnownLinks::kMost; ++i) {
    links.Told({1, std::to_string(i)}, {i + 1, kNow, kUntil});
  }
  size_t known = 0;
  for (size_t i = 0; i <= KnownLinks::kMost; ++i) {
    if (links.Find({1, std::to_string(i)}, kNow).nodeid != 0) ++known;
  }
  EXPECT_LE(known, KnownLinks::kMost);
  EXPECT_GE(known, KnownLinks::kLeft);
  links.Told({1, "late"}, {5, kUntil, kUntil + absl::Seconds(3)});  // replaces the expired ones
  EXPECT_EQ(links.Find({1, "late"}, kUntil).nodeid, 5u);
}

}  // namespace
}  // namespace dafs::fuse
