#include "fuse/kernel/labels.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace dafs::fuse {
namespace {

TEST(KernelLabelsTest, SelinuxIsDetectedByItsFileSystem) {
  const std::string path = testing::TempDir() + "dafs-filesystems";
  const auto listing = [&](const std::string& content) {
    std::ofstream(path) << content;
    return KernelHasSelinux(path);
  };
  EXPECT_FALSE(listing("nodev\tsysfs\nnodev\tnoselinuxfs\n\text4\n"));
  EXPECT_TRUE(listing("nodev\tsysfs\nnodev\tselinuxfs\n\text4\n"));
  std::filesystem::remove(path);
  EXPECT_FALSE(KernelHasSelinux(path)) << "no list";
}

}  // namespace
}  // namespace dafs::fuse
