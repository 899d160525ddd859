// The ranges of one lock owner, compared with an array of one cell for each byte.
#include "wire/protocol/lock_ranges.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace dafs::wire {
namespace {

TEST(LockRangesTest, ArgumentsBecomeRangesAndBack) {
  EXPECT_EQ(LockRangeOf(10, 5, LockType::kRead), (LockRange{10, 14, false}));
  EXPECT_EQ(LockRangeOf(10, 5, LockType::kWriteBlocking), (LockRange{10, 14, true}));
  const LockRange whole = LockRangeOf(0, kLockToEnd, LockType::kWrite);
  EXPECT_EQ(whole.last, kFlockByte - 1);
  EXPECT_EQ(LengthOf(whole), kLockToEnd);
  EXPECT_EQ(TypeOf(whole), LockType::kWrite);
  EXPECT_EQ(TypeOf(whole, true), LockType::kWriteBlocking);
  EXPECT_EQ(LengthOf({10, 14, false}), 5u);
}

TEST(LockRangesTest, FlockNeverConflictsWithRecordLocks) {
  const LockRange flock = LockRangeOf(kFlockByte, 1, LockType::kWrite);
  EXPECT_TRUE(flock.is_flock());
  EXPECT_EQ(flock, FlockRange(true));
  EXPECT_EQ(LockRangeOf(kFlockByte, kLockToEnd, LockType::kWrite), flock);
  LockRanges held;
  held.Set(flock);
  // With "to the end", and with the equivalent length.
  for (uint64_t length : {kLockToEnd, kFlockByte - 4}) {
    const LockRange record = LockRangeOf(5, length, LockType::kWrite);
    EXPECT_FALSE(record.ConflictsWith(flock));
    EXPECT_EQ(held.FindConflict(record), nullptr);
    held.Set(record);
    EXPECT_EQ(held.size(), 2u);  // adjacent and of one type, but not merged
    held.Clear(record.first, record.last);
    EXPECT_EQ(held.ranges(), std::vector<LockRange>{flock});
  }
}

// Shows DAFS-4.4.1.2-12: part of a locked range is unlocked, upgraded, downgraded.
TEST(LockRangesTest, RangesAreSplitAndAdjacentOnesMerged) {
  LockRanges held;
  held.Set({0, 99, true});
  held.Set({40, 59, false});
  EXPECT_EQ(held.ranges(),
            (std::vector<LockRange>{{0, 39, true}, {40, 59, false}, {60, 99, true}}));
  held.Set({40, 59, true});
  EXPECT_EQ(held.ranges(), (std::vector<LockRange>{{0, 99, true}}));
  held.Clear(10, 19);
  EXPECT_EQ(held.ranges(), (std::vector<LockRange>{{0, 9, true}, {20, 99, true}}));
  EXPECT_FALSE(held.Covers({0, 99, false}));
  EXPECT_TRUE(held.Covers({20, 99, true}));
}

// Compares with operations on single bytes. The seed is printed on failure.
TEST(LockRangesTest, AgreesWithAModelOfBytes) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::array<int, 40> model{};  // 0 free, 1 read, 2 write
    LockRanges held;
    for (int step = 0; step < 500; ++step) {
      uint64_t first = random() % model.size();
      uint64_t last = first + random() % (model.size() - first);
      const int kind = static_cast<int>(random() % 3);
      if (kind == 0) {
        held.Clear(first, last);
      } else {
        held.Set({first, last, kind == 2});
      }
      for (uint64_t byte = first; byte <= last; ++byte) model[byte] = kind;

      std::vector<LockRange> expected;
      for (uint64_t byte = 0; byte < model.size(); ++byte) {
        if (model[byte] == 0) continue;
        const bool write = model[byte] == 2;
        if (!expected.empty() && expected.back().last + 1 == byte &&
            expected.back().write == write) {
          expected.back().last = byte;
        } else {
          expected.push_back({byte, byte, write});
        }
      }
      ASSERT_EQ(held.ranges(), expected) << "step " << step;
      first = random() % model.size();
      last = first + random() % (model.size() - first);
      const bool write = random() % 2 == 0;
      bool conflict = false;
      bool covered = true;
      for (uint64_t byte = first; byte <= last; ++byte) {
        conflict |= model[byte] == 2 || (model[byte] == 1 && write);
        covered &= model[byte] == 2 || (model[byte] == 1 && !write);
      }
      ASSERT_EQ(held.FindConflict({first, last, write}) != nullptr, conflict) << "step " << step;
      ASSERT_EQ(held.Covers({first, last, write}), covered) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace dafs::wire
