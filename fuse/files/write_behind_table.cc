#include "fuse/files/write_behind_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/check.h"

namespace dafs::fuse {

bool WriteBehindTable::Overlaps(uint64_t nodeid, uint64_t begin, uint64_t end) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.nodeid == nodeid && part.begin < end && begin < part.end;
  });
}

bool WriteBehindTable::IsOut(uint64_t nodeid, uint64_t last) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return (nodeid == kAnyNode || part.nodeid == nodeid) && part.number <= last;
  });
}

std::vector<WriteBehindTable::Part>::iterator WriteBehindTable::Find(uint64_t nodeid,
                                                                     uint64_t offset) {
  return std::find_if(parts_.begin(), parts_.end(), [&](const Part& one) {
    return one.nodeid == nodeid && one.begin == offset && !one.held;
  });
}

std::vector<WriteBehindTable::Waiter> WriteBehindTable::Erase(std::vector<Part>::iterator part) {
  parts_.erase(part);
  out_.store(parts_.size(), std::memory_order_release);
  std::vector<Waiter> woken, still;
  for (Waiter& one : waiters_) {
    (IsOut(one.nodeid, one.last) ? still : woken).push_back(std::move(one));
  }
  waiters_ = std::move(still);
  return woken;
}

bool WriteBehindTable::Begin(uint64_t nodeid, uint64_t offset, uint64_t size) {
  absl::MutexLock lock(&mutex_);
  if (Overlaps(nodeid, offset, offset + size)) return false;
  parts_.push_back({nodeid, offset, offset + size, ++begun_});
  out_.store(parts_.size(), std::memory_order_release);
  return true;
}

bool WriteBehindTable::Lengthen(uint64_t nodeid, uint64_t offset, uint64_t more) {
  absl::MutexLock lock(&mutex_);
  auto part = Find(nodeid, offset);
  DAFS_CHECK(part != parts_.end(), "WriteBehindTable::Lengthen of a part that is not out");
  if (Overlaps(nodeid, part->end, part->end + more)) return false;
  part->end += more;
  return true;
}

void WriteBehindTable::End(uint64_t nodeid, uint64_t offset) {
  std::vector<Waiter> woken;
  {
    absl::MutexLock lock(&mutex_);
    auto part = Find(nodeid, offset);
    DAFS_CHECK(part != parts_.end(), "WriteBehindTable::End of a part that is not out");
    woken = Erase(part);
  }
  for (const Waiter& one : woken) one.waker.Wake();
}

uint64_t WriteBehindTable::Hold(uint64_t nodeid) {
  absl::MutexLock lock(&mutex_);
  constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();
  parts_.push_back({nodeid, 0, kAll, ++begun_, /*held=*/true});
  out_.store(parts_.size(), std::memory_order_release);
  return begun_;
}

void WriteBehindTable::Release(uint64_t number) {
  std::vector<Waiter> woken;
  {
    absl::MutexLock lock(&mutex_);
    auto part = std::find_if(parts_.begin(), parts_.end(),
                             [&](const Part& one) { return one.held && one.number == number; });
    DAFS_CHECK(part != parts_.end(), "WriteBehindTable::Release of what is not held");
    woken = Erase(part);
  }
  for (const Waiter& one : woken) one.waker.Wake();
}

bool WriteBehindTable::Holds(uint64_t nodeid) const {
  if (idle()) return false;
  absl::MutexLock lock(&mutex_);
  return IsOut(nodeid, begun_);
}

bool WriteBehindTable::WakeWhenDrained(uint64_t nodeid, LoopWait::Waker waker) {
  if (idle()) return false;
  absl::MutexLock lock(&mutex_);
  if (!IsOut(nodeid, begun_)) return false;
  waiters_.push_back({nodeid, begun_, std::move(waker)});
  return true;
}

}  // namespace dafs::fuse
