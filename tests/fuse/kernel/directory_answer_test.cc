// The entries of a READDIR.
#include "fuse/kernel/directory_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <string>

namespace dafs::fuse {
namespace {

TEST(DirectoryAnswer, StaysWithinItsLimitAndAligned) {
  DirectoryAnswer answer(64);
  ASSERT_TRUE(answer.Fits("abc", false));
  answer.Add("abc", 5, S_IFDIR, 1);
  EXPECT_EQ(answer.bytes().size(), 32u);
  ASSERT_TRUE(answer.Fits("12345678", false));
  answer.Add("12345678", 6, S_IFREG, 2);
  EXPECT_EQ(answer.bytes().size(), 64u);
  EXPECT_FALSE(answer.Fits("x", false));
  fuse_dirent first = {};
  std::memcpy(&first, answer.bytes().data(), FUSE_NAME_OFFSET);
  EXPECT_EQ(first.ino, 5u);
  EXPECT_EQ(first.off, 1u);
  EXPECT_EQ(first.namelen, 3u);
  EXPECT_EQ(first.type, 4u);  // DT_DIR
}

TEST(DirectoryAnswer, CountsTheLookupsOfTheNodesItSends) {
  DirectoryAnswer answer(4096);
  fuse_entry_out entry = {};
  answer.AddPlus(entry, "none", 1, S_IFREG, 1);
  entry.nodeid = 9;
  answer.AddPlus(entry, "one", 1, S_IFREG, 2);
  EXPECT_THAT(answer.counted(), testing::ElementsAre(9u));
}

}  // namespace
}  // namespace dafs::fuse
