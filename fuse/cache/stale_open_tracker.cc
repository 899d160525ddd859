#include "fuse/cache/stale_open_tracker.h"

namespace dafs::fuse {

bool StaleOpenTracker::IsRetry(uint32_t thread, uint64_t nodeid, absl::Time now) {
  if (count_.load(std::memory_order_relaxed) == 0) return false;
  absl::MutexLock lock(&mutex_);
  auto mark = marks_.find(thread);
  if (mark == marks_.end()) return false;
  const bool back = mark->second.nodeid == nodeid && now - mark->second.at < kFor;
  marks_.erase(mark);
  count_.store(marks_.size(), std::memory_order_relaxed);
  return back;
}

void StaleOpenTracker::NoteLookup(uint32_t thread, uint64_t nodeid) {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  absl::MutexLock lock(&mutex_);
  auto mark = marks_.find(thread);
  if (mark == marks_.end()) return;
  mark->second.nodeid = nodeid;
  if (nodeid == 0) marks_.erase(mark);
  count_.store(marks_.size(), std::memory_order_relaxed);
}

void StaleOpenTracker::NoteStale(uint32_t thread, uint64_t nodeid, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (marks_.size() >= kMost) {
    absl::erase_if(marks_, [&](const auto& mark) { return now - mark.second.at >= kFor; });
  }
  if (marks_.size() >= kMost) marks_.erase(marks_.begin());
  marks_[thread] = {nodeid, now};
  count_.store(marks_.size(), std::memory_order_relaxed);
}

}  // namespace dafs::fuse
