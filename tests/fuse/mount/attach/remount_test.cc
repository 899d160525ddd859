#include "fuse/mount/attach/remount.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fuse/options/command_line.h"

namespace dafs::fuse {
namespace {

constexpr char kKernel[] =
    "rw,user_id=0,group_id=0,default_permissions,allow_other,max_read=1048576";

Options Mounted(const std::string& list) {
  const std::vector<std::string> words = {"server:/data", "/mnt", "-o", list};
  return *ParseOptions(words, {});
}

std::optional<std::string> Change(const std::string& mounted, std::vector<std::string> list) {
  return FirstChange(list, Mounted(mounted), kKernel);
}

TEST(FirstChange, NamesTheOptionThatWouldChange) {
  EXPECT_EQ(Change("rw", {"noac"}), "noac");
  EXPECT_EQ(Change("rw", {"hard", "soft"}), "soft");
  EXPECT_EQ(Change("nconnect=2", {"nconnect=2", "nconnect=4"}), "nconnect=4");
  EXPECT_EQ(Change("noacl", {"acl"}), "acl");
  EXPECT_EQ(Change("rw", {"port=20150"}), "port=20150");
  EXPECT_EQ(Change("rw", {"context=a_t"}), "context=a_t");
  EXPECT_EQ(Change("rw", {"bogus"}), "bogus");
  EXPECT_EQ(Change("rw", {"user_id=1"}), "user_id=1");
  EXPECT_EQ(Change("rw", {"noallow_other"}), "noallow_other");
}

TEST(FirstChange, AcceptsOptionsThatTheMountAlreadyHas) {
  EXPECT_EQ(Change("noac,soft", {"soft", "noac", "actimeo=0"}), std::nullopt);
  EXPECT_EQ(Change("rw", {"hard", "port=20149", "nconnect=1", "proto=auto"}), std::nullopt);
  EXPECT_EQ(Change("rw", {"noac", "ac"}), std::nullopt);
  EXPECT_EQ(Change("context=a_t", {"context=a_t"}), std::nullopt);
}

TEST(FirstChange, AcceptsKernelOptionsThatMount8Repeats) {
  EXPECT_EQ(Change("rw", {"user_id=0", "group_id=0", "default_permissions", "allow_other",
                          "max_read=1048576"}),
            std::nullopt);
}

}  // namespace
}  // namespace dafs::fuse
