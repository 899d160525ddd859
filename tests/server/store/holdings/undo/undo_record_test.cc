// The bytes that are saved before a change under an AUTORECOVERY lock, and what an undo restores.
#include "server/store/holdings/undo/undo_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace dafs::server {
namespace {

using wire::LockRange;
using wire::LockRanges;

LockRanges Bytes(std::initializer_list<std::pair<uint64_t, uint64_t>> ranges) {
  LockRanges set;
  for (const auto& [first, last] : ranges) set.Set({first, last, /*write=*/true});
  return set;
}
std::vector<LockRange> RangesOf(const LockRanges& set) { return set.ranges(); }

TEST(UndoRecord, ASavedByteIsNotSavedAgain) {
  const LockRanges locked = Bytes({{0, 999999}});
  UndoRecord record;
  ASSERT_TRUE(MustSave(record, locked, {100, 200}));
  Add(record, StepsFor(record, locked, {100, 200}, 500000));
  EXPECT_EQ(RangesOf(record.data), RangesOf(Bytes({{0, kSavedAtOnce - 1}})));  // a whole block
  EXPECT_FALSE(MustSave(record, locked, {0, kSavedAtOnce}));
  EXPECT_TRUE(MustSave(record, locked, {0, kSavedAtOnce + 1}));
  const UndoRecord steps = StepsFor(record, locked, {0, kSavedAtOnce + 1}, 500000);
  EXPECT_EQ(RangesOf(steps.data), RangesOf(Bytes({{kSavedAtOnce, 2 * kSavedAtOnce - 1}})));
  EXPECT_FALSE(steps.size.has_value());
}

TEST(UndoRecord, OnlyLockedBytesAreSaved) {
  const LockRanges locked = Bytes({{10, 19}, {40, 49}});
  EXPECT_FALSE(MustSave({}, locked, {20, 40}));
  EXPECT_FALSE(MustSave({}, locked, {0, 0}));
  const UndoRecord steps = StepsFor({}, locked, {0, 45}, 1000);
  EXPECT_EQ(RangesOf(steps.data), RangesOf(locked));
}

TEST(UndoRecord, GrowthIsSavedOnceForAll) {
  const LockRanges locked = Bytes({{0, kLastFileByte}});
  UndoRecord record;
  Add(record, StepsFor(record, locked, {50, 60}, 50));
  EXPECT_TRUE(record.data.empty());
  EXPECT_EQ(record.size->old_size, 50u);
  EXPECT_FALSE(MustSave(record, locked, {1000000, 2000000}));
  const UndoPlan plan = PlanUndo(record, locked, {}, 2000000);
  EXPECT_EQ(plan.new_size, 50u);
  EXPECT_TRUE(plan.after.empty());
}

TEST(UndoRecord, ATruncationSavesTheTailAndTheSize) {
  const LockRanges locked = Bytes({{0, 99}});
  UndoRecord record;
  Add(record, StepsFor(record, locked, {20, 160, /*shrinks=*/true}, 160));
  EXPECT_EQ(RangesOf(record.data), RangesOf(locked));
  // The part beyond the lock stays cut off.
  EXPECT_EQ(record.size->old_size, 100u);
  EXPECT_EQ(PlanUndo(record, locked, {}, 20).new_size, 100u);
}

TEST(UndoRecord, WritesOfOthersBeyondTheOldEndStay) {
  const LockRanges locked = Bytes({{100, 199}});
  UndoRecord record;
  Add(record, StepsFor(record, locked, {150, 160}, 50));
  record.size->floor = FloorAfter(*record.size, locked, {60, 70});
  EXPECT_EQ(record.size->floor, 70u);
  EXPECT_EQ(FloorAfter(*record.size, locked, {100, 150}), 70u);  // under the lock
  EXPECT_EQ(FloorAfter(*record.size, locked, {180, 300}), 300u);
  EXPECT_EQ(PlanUndo(record, locked, {}, 160).new_size, 70u);
}

TEST(UndoRecord, ACommittedPartIsNotUndone) {
  const LockRanges locked = Bytes({{0, kLastFileByte}});
  UndoRecord record;
  Add(record, StepsFor(record, locked, {0, 200}, 100));
  const LockRanges kept = Bytes({{0, 119}});
  record = AfterCommit(record, kept, 200);
  EXPECT_EQ(RangesOf(record.data), RangesOf(Bytes({{0, 99}})));
  EXPECT_EQ(RangesOf(record.zeros), RangesOf(Bytes({{100, 119}})));
  EXPECT_EQ(PlanUndo(record, kept, {}, 200).new_size, 200u);
  EXPECT_TRUE(AfterCommit(record, {}, 200).empty());

  // A truncation: the end stays cut off, the beginning comes back.
  UndoRecord cut;
  Add(cut, StepsFor(cut, locked, {20, 100, true}, 100));
  cut = AfterCommit(cut, Bytes({{0, 49}}), 20);
  EXPECT_EQ(cut.size->old_size, 50u);
}

TEST(UndoRecord, AFlockLockStandsForTheWholeFile) {
  LockRanges locks;
  locks.Set(wire::FlockRange(true));
  EXPECT_EQ(RangesOf(FileBytes(locks)), RangesOf(Bytes({{0, kLastFileByte}})));
  locks = {};
  locks.Set({5, wire::kFlockByte - 1, true});
  EXPECT_EQ(RangesOf(FileBytes(locks)), RangesOf(Bytes({{5, kLastFileByte}})));
}

// A file in memory whose holder changes it at random, against a copy of the state before.
TEST(UndoRecord, RandomChangesAreUndone) {
  std::mt19937 random(20261127);
  const auto below = [&](uint64_t most) { return random() % most; };
  for (int round = 0; round < 2000; ++round) {
    std::string file(below(300), 'a');
    for (char& c : file) c = static_cast<char>('a' + below(26));
    const std::string before = file;
    std::string undo(1000, '?');
    const LockRanges locked =
        below(2) != 0 ? Bytes({{0, kLastFileByte}}) : Bytes({{below(50), 100 + below(300)}});
    const uint64_t first = locked.ranges().front().first;
    const uint64_t last = std::min<uint64_t>(locked.ranges().front().last, 599);
    UndoRecord record;
    for (int step = 0; step < 10; ++step) {
      const bool shrinks = below(4) == 0;
      UndoChange change;
      if (shrinks) {
        if (file.size() <= first || file.size() > last + 1) continue;
        change = {first + below(file.size() - first), file.size(), true};
      } else {
        const uint64_t from = first + below(last - first + 1);
        if (from > file.size() && file.size() < first) continue;  // bytes between are not locked
        change = {from, std::min(last + 1, from + 1 + below(80))};
      }
      if (MustSave(record, locked, change)) {
        const UndoRecord steps = StepsFor(record, locked, change, file.size());
        for (const LockRange& range : steps.data.ranges()) {
          ASSERT_LT(range.last, file.size());
          for (uint64_t i = range.first; i <= range.last; ++i) undo[i] = file[i];
        }
        Add(record, steps);
      }
      if (shrinks) {
        file.resize(change.first);
      } else {
        if (file.size() < change.end) file.resize(change.end, '\0');
        std::fill(file.begin() + static_cast<ptrdiff_t>(change.first),
                  file.begin() + static_cast<ptrdiff_t>(change.end), 'Z');
      }
    }
    const UndoPlan plan = PlanUndo(record, locked, {}, file.size());
    for (int times = 0; times < 2; ++times) {  // an undo may be repeated
      if (plan.new_size && *plan.new_size < file.size()) file.resize(*plan.new_size);
      for (const LockRange& range : plan.copies) {
        if (file.size() <= range.last) file.resize(range.last + 1, '\0');
        for (uint64_t i = range.first; i <= range.last; ++i) file[i] = undo[i];
      }
      for (const LockRange& range : plan.zeros) {
        for (uint64_t i = range.first; i <= range.last && i < file.size(); ++i) file[i] = '\0';
      }
      if (plan.new_size && *plan.new_size > file.size()) file.resize(*plan.new_size, '\0');
    }
    ASSERT_EQ(file, before) << "round " << round;
    ASSERT_TRUE(plan.after.empty());
  }
}

}  // namespace
}  // namespace dafs::server
