#include "client/status/mount_point.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace dafs::client {
namespace {

class ResolveMountPointTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/mount-point-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base_ = std::filesystem::canonical(name).string();
    std::filesystem::create_directories(base_ + "/d/m");
    std::filesystem::create_symlink("d", base_ + "/link");
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(base_ + "/d");
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(base_);
  }
  std::string base_;
  std::filesystem::path before_;
};

TEST_F(ResolveMountPointTest, ReturnsAbsolutePathWithoutLinks) {
  for (const std::string& path : {std::string("m"), std::string("./m/"), std::string("../link/m"),
                                  base_ + "/link/m", base_ + "//d/./m"}) {
    EXPECT_EQ(ResolveMountPoint(path), base_ + "/d/m") << path;
  }
  EXPECT_EQ(ResolveMountPoint("/"), "/");
}

TEST_F(ResolveMountPointTest, NeedsOnlyTheParentDirectory) {
  EXPECT_EQ(ResolveMountPoint("absent"), base_ + "/d/absent");
  EXPECT_EQ(ResolveMountPoint("../link/absent/"), base_ + "/d/absent");
  EXPECT_EQ(ResolveMountPoint("no/such"), base_ + "/d/no/such");
}

constexpr char kMountInfo[] =
    "22 1 8:1 / / rw - ext4 /dev/vda rw\n"
    "30 22 0:40 / /mnt rw,nosuid shared:5 master:2 - fuse.dafs s:/x rw,user_id=0,group_id=0\n"
    "31 22 0:41 / /mnt/a\\040b rw - fuse.dafs s:/with\\040space rw,user_id=7\n"
    "32 22 0:42 / /mnt rw - tmpfs t rw\n";

TEST(FindMount, FindsTheTopmostMountOfThePath) {
  EXPECT_EQ(FindMount(kMountInfo, "/mnt")->device, "0:42");
  EXPECT_EQ(FindMount(kMountInfo, "/mnt/file")->type, "tmpfs");
  EXPECT_EQ(FindMount(kMountInfo, "/mnt2")->point, "/");
  const auto mount = FindMount(kMountInfo, "/mnt/a b/c");
  ASSERT_TRUE(mount.has_value());
  EXPECT_EQ(mount->point, "/mnt/a b");
  EXPECT_EQ(mount->type, "fuse.dafs");
  EXPECT_EQ(mount->source, "s:/with space");
  EXPECT_EQ(mount->super_options, "rw,user_id=7");
  EXPECT_EQ(FindMount("", "/mnt"), std::nullopt);
}

}  // namespace
}  // namespace dafs::client
