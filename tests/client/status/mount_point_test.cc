#include "client/status/mount_point.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "client/status/lease_keeper.h"

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

// Programs of other versions find the mount by it.
TEST(MountSocketTest, NameOfTheSocketDoesNotChange) {
  EXPECT_EQ(LeaseKeeper::SocketPath("/run/dafs", "/mnt"), "/run/dafs/ce6b489c78c971c3.sock");
}

TEST(MountSocketTest, SocketOfTheServerIsNoMount) {
  const std::filesystem::path path = LeaseKeeper::SocketPath("/run/dafs", "/mnt");
  EXPECT_TRUE(LeaseKeeper::IsSocketName(path.filename().string()));
  for (const char* name : {"dafsd.sock", "", ".sock", "0123456789abcdef", "0123456789abcdeg.sock",
                           "0123456789abcdef.pid.sock"}) {
    EXPECT_FALSE(LeaseKeeper::IsSocketName(name)) << name;
  }
}

}  // namespace
}  // namespace dafs::client
