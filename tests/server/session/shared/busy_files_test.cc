#include "server/session/shared/busy_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace dafs::server {
namespace {

ObjectKey File(uint32_t number) {
  ObjectKey key;
  std::memcpy(key.bytes.data() + 20, &number, sizeof(number));
  return key;
}

std::map<uint32_t, FileUse> ByNumber(const BusyFiles& files) {
  std::map<uint32_t, FileUse> found;
  for (const FileUse& use : files.Get()) {
    uint32_t number = 0;
    std::memcpy(&number, use.file.bytes.data() + 20, sizeof(number));
    found[number] = use;
  }
  return found;
}

TEST(BusyFilesTest, FewFilesAreCountedExactly) {
  BusyFiles files;
  EXPECT_TRUE(files.empty());
  for (int i = 0; i < 5; ++i) files.Count(File(1), 100);
  files.Count(File(2), 7);
  const auto found = ByNumber(files);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at(1).requests, 5u);
  EXPECT_EQ(found.at(1).bytes, 500u);
  EXPECT_EQ(found.at(2).requests, 1u);
}

TEST(BusyFilesTest, TheLastWindowCountsAndTheOneBeforeDoesNot) {
  BusyFiles files;
  files.Count(File(1), 10);
  files.Turn();
  files.Count(File(1), 10);
  files.Count(File(2), 10);
  EXPECT_EQ(ByNumber(files).at(1).requests, 2u);
  files.Turn();
  EXPECT_EQ(ByNumber(files).at(1).requests, 1u);
  files.Turn();
  EXPECT_TRUE(files.Get().empty());
  EXPECT_TRUE(files.empty());
}

TEST(BusyFilesTest, ABusyFileIsFoundAmongManyAndNeverCountedTooHigh) {
  BusyFiles files;
  // The busy files come when all places are taken.
  for (uint32_t i = 0; i < 4 * BusyFiles::kMost; ++i) files.Count(File(1000 + i), 10);
  uint64_t busy = 0;
  for (uint32_t i = 0; i < 100'000; ++i) {
    files.Count(File(1000 + i % 50'000), 10);
    if (i % 10 != 0) continue;
    ++busy;
    files.Count(File(1), 10);       // by requests
    files.Count(File(2), 1 << 20);  // by bytes
  }
  const auto found = ByNumber(files);
  EXPECT_LE(found.size(), BusyFiles::kMost);
  for (const uint32_t number : {1u, 2u}) {
    ASSERT_TRUE(found.contains(number));
    EXPECT_LE(found.at(number).requests, busy);
    EXPECT_GE(found.at(number).requests, busy / 2);
  }
}

}  // namespace
}  // namespace dafs::server
