// The byte ranges that one lock owner holds in one file, and the effect of LOCK and LOCKU on them.
// A lock replaces the owner's locks in its range. The rest of a split lock stays. Adjacent locks of
// one type become one (POSIX record locks; draft 4.4.1.2 "Lock Ranges", 6.5.18, 6.5.20).
// A value; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "wire/protocol/constants.h"

namespace dafs::wire {

// The last byte of the lock space, which no file has. A lock whose range begins there
// covers it alone and stands for flock(2) on the whole file. "To the end" ends before it, so that
// the two kinds of locks never conflict, as on Linux.
inline constexpr uint64_t kFlockByte = std::numeric_limits<uint64_t>::max();

// A range and whether it is locked for writing (exclusive) or for reading (shared).
struct LockRange {
  uint64_t first = 0;
  uint64_t last = 0;  // inclusive
  bool write = false;

  bool is_flock() const { return first == kFlockByte; }
  bool Overlaps(const LockRange& other) const { return first <= other.last && other.first <= last; }
  // Whether two owners could not hold both locks.
  bool ConflictsWith(const LockRange& other) const {
    return Overlaps(other) && (write || other.write);
  }
  friend bool operator==(const LockRange&, const LockRange&) = default;
};

// Convert from the arguments of LOCK, LOCKT and LOCKU, which argument_rules has checked, and back.
LockRange LockRangeOf(uint64_t offset, uint64_t length, LockType type);
inline LockRange FlockRange(bool write) { return {kFlockByte, kFlockByte, write}; }
uint64_t LengthOf(const LockRange& range);
LockType TypeOf(const LockRange& range, bool blocking = false);

class LockRanges {
 public:
  // LOCK: holds `range` with its type.
  void Set(const LockRange& range);
  // LOCKU: releases all of `first` to `last`.
  void Clear(uint64_t first, uint64_t last);

  // Returns a held lock that conflicts with another owner's `range`; null if there is none.
  const LockRange* FindConflict(const LockRange& range) const;
  // Whether all of `range` is held, at least with its type.
  bool Covers(const LockRange& range) const;

  bool empty() const { return ranges_.empty(); }
  size_t size() const { return ranges_.size(); }
  // Ascending and disjoint; adjacent ranges differ in type.
  const std::vector<LockRange>& ranges() const { return ranges_; }

 private:
  std::vector<LockRange> ranges_;
};

}  // namespace dafs::wire
