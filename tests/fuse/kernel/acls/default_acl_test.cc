#include "fuse/kernel/acls/default_acl.h"

#include <gtest/gtest.h>

#include <string>

namespace dafs::fuse {
namespace {

// u::rwx, u:1000:rwx, g::r-x, o::r--; and the same with the mask -w-.
TEST(DefaultAclTest, RemovesRightsFromTheMode) {
  const std::string header("\2\0\0\0", 4);
  const std::string owner("\1\0\7\0\xff\xff\xff\xff", 8), user("\2\0\7\0\xe8\3\0\0", 8);
  const std::string group("\4\0\5\0\xff\xff\xff\xff", 8), mask("\x10\0\2\0\xff\xff\xff\xff", 8);
  const std::string other("\x20\0\4\0\xff\xff\xff\xff", 8);
  EXPECT_EQ(ModeUnderAcl(010777, header + owner + group + other), 010754u);
  EXPECT_EQ(ModeUnderAcl(010666, header + owner + user + group + mask + other), 010624u);
  EXPECT_EQ(ModeUnderAcl(010777, ""), 010000u);
  EXPECT_EQ(ModeUnderAcl(010777, header + owner.substr(0, 7)), 010000u);
}

}  // namespace
}  // namespace dafs::fuse
