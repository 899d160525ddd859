#include "wire/protocol/lock_ranges.h"

#include <algorithm>

namespace dafs::wire {

LockRange LockRangeOf(uint64_t offset, uint64_t length, LockType type) {
  const bool write = type == LockType::kWrite || type == LockType::kWriteBlocking;
  uint64_t last = length == kLockToEnd ? kFlockByte : offset + (length - 1);
  if (last == kFlockByte && offset != kFlockByte) --last;
  return {offset, last, write};
}

uint64_t LengthOf(const LockRange& range) {
  return range.last == kFlockByte - 1 ? kLockToEnd : range.last - range.first + 1;
}

LockType TypeOf(const LockRange& range, bool blocking) {
  if (blocking) return range.write ? LockType::kWriteBlocking : LockType::kReadBlocking;
  return range.write ? LockType::kWrite : LockType::kRead;
}

void LockRanges::Clear(uint64_t first, uint64_t last) {
  // The first range that ends at `first` or later.
  auto it = std::lower_bound(ranges_.begin(), ranges_.end(), first,
                             [](const LockRange& r, uint64_t byte) { return r.last < byte; });
  if (it != ranges_.end() && it->first < first && it->last > last) {
    const LockRange behind{last + 1, it->last, it->write};
    it->last = first - 1;
    ranges_.insert(it + 1, behind);
    return;
  }
  if (it != ranges_.end() && it->first < first) {
    it->last = first - 1;
    ++it;
  }
  auto end = it;
  while (end != ranges_.end() && end->last <= last) ++end;
  if (end != ranges_.end() && end->first <= last) end->first = last + 1;
  ranges_.erase(it, end);
}

void LockRanges::Set(const LockRange& range) {
  Clear(range.first, range.last);
  auto it = std::lower_bound(ranges_.begin(), ranges_.end(), range.first,
                             [](const LockRange& r, uint64_t byte) { return r.last < byte; });
  it = ranges_.insert(it, range);
  const auto joins = [](const LockRange& a, const LockRange& b) {
    // The byte of flock is never merged.
    return a.write == b.write && a.last + 1 == b.first && !b.is_flock();
  };
  if (it + 1 != ranges_.end() && joins(*it, *(it + 1))) {
    it->last = (it + 1)->last;
    it = ranges_.erase(it + 1) - 1;
  }
  if (it != ranges_.begin() && joins(*(it - 1), *it)) {
    (it - 1)->last = it->last;
    ranges_.erase(it);
  }
}

const LockRange* LockRanges::FindConflict(const LockRange& range) const {
  auto it = std::lower_bound(ranges_.begin(), ranges_.end(), range.first,
                             [](const LockRange& r, uint64_t byte) { return r.last < byte; });
  for (; it != ranges_.end() && it->first <= range.last; ++it) {
    if (it->write || range.write) return &*it;
  }
  return nullptr;
}

bool LockRanges::Covers(const LockRange& range) const {
  uint64_t next = range.first;
  for (const LockRange& held : ranges_) {
    if (held.last < next) continue;
    if (held.first > next || (range.write && !held.write)) return false;
    if (held.last >= range.last) return true;
    next = held.last + 1;
  }
  return false;
}

}  // namespace dafs::wire
