#include "runtime/files/mount_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace dafs {
namespace {

constexpr char kMountInfo[] =
    "22 1 8:1 / / rw - ext4 /dev/vda rw\n"
    "30 22 0:40 / /mnt rw,nosuid shared:5 master:2 - fuse.dafs s:/x rw,user_id=0,group_id=0\n"
    "31 22 0:41 / /mnt/a\\040b rw - fuse.dafs s:/with\\040space rw,user_id=7\n"
    "32 22 0:42 / /mnt rw - tmpfs t rw\n";

TEST(FindMount, FindsTheTopmostMountOfThePath) {
  const std::vector<MountEntry> mounts = ParseMountInfo(kMountInfo);
  EXPECT_EQ(FindMount(mounts, "/mnt")->device, "0:42");
  EXPECT_EQ(FindMount(mounts, "/mnt/file")->type, "tmpfs");
  EXPECT_EQ(FindMount(mounts, "/mnt2")->point, "/");
  const MountEntry* const mount = FindMount(mounts, "/mnt/a b/c");
  ASSERT_NE(mount, nullptr);
  EXPECT_EQ(mount->point, "/mnt/a b");
  EXPECT_EQ(mount->type, "fuse.dafs");
  EXPECT_EQ(mount->source, "s:/with space");
  EXPECT_EQ(mount->super_options, "rw,user_id=7");
  EXPECT_EQ(FindMount({}, "/mnt"), nullptr);
}

TEST(ParseMountInfo, ReadsEachLineOfTheKernelsForm) {
  const std::vector<MountEntry> mounts = ParseMountInfo(
      "31 22 0:41 /sub\\134 /mnt/a\\011b rw,nosuid shared:5 master:2 - fuse.dafs s:/x "
      "rw,user_id=7\n"
      "a line of another form\n"
      "x 22 0:41 / /mnt rw - tmpfs t rw\n"
      "32 31 0:42 / /mnt\\04 rw - tmpfs t\n");
  ASSERT_EQ(mounts.size(), 2);
  EXPECT_EQ(mounts[0], (MountEntry{.mount_id = 31,
                                   .device = "0:41",
                                   .root = "/sub\\",
                                   .point = "/mnt/a\tb",
                                   .type = "fuse.dafs",
                                   .source = "s:/x",
                                   .super_options = "rw,user_id=7"}));
  EXPECT_EQ(mounts[1].point, "/mnt\\04");
  EXPECT_EQ(mounts[1].super_options, "");
}

}  // namespace
}  // namespace dafs
