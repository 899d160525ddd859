// The open files whose attributes the kernel may have from a killed process, until it has others.
//
// The kernel discards the answer to a GETATTR if the attributes were invalidated after it was sent,
// and a read(2) that waits for it then uses the old size. So the attributes of an open file are
// invalidated only while no GETATTR of it is unanswered. Otherwise the answer replaces them. Other
// files need no such care: stat(2) returns what the answer has.
// Thread-safe. Nothing blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace dafs::fuse {

class OutdatedFiles {
 public:
  // Call before requests are served.
  void Add(uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    asked_.try_emplace(nodeid, 0);
    any_.store(true, std::memory_order_release);
  }
  // A GETATTR of any node was read.
  void Asked(uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!any_.load(std::memory_order_acquire)) return;
    absl::MutexLock lock(&mutex_);
    if (const auto file = asked_.find(nodeid); file != asked_.end()) ++file->second;
  }
  // It has its answer. Returns whether the caller must invalidate the attributes: the answer has
  // none, and there is no further GETATTR.
  bool Answered(uint64_t nodeid, bool with_attributes) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!any_.load(std::memory_order_acquire)) return false;
    absl::MutexLock lock(&mutex_);
    const auto file = asked_.find(nodeid);
    if (file == asked_.end()) return false;
    if (!with_attributes && --file->second > 0) return false;
    Erase(file);
    return !with_attributes;
  }
  // Those of which no GETATTR is unanswered: the caller must invalidate their attributes.
  std::vector<uint64_t> TakeUnasked() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<uint64_t> unasked;
    absl::MutexLock lock(&mutex_);
    for (const auto& [nodeid, asked] : asked_) {
      if (asked == 0) unasked.push_back(nodeid);
    }
    for (const uint64_t nodeid : unasked) Erase(asked_.find(nodeid));
    return unasked;
  }

 private:
  using Files = absl::flat_hash_map<uint64_t, size_t>;  // GETATTRs without an answer, by node
  void Erase(Files::iterator file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    asked_.erase(file);
    any_.store(!asked_.empty(), std::memory_order_release);
  }

  std::atomic<bool> any_{false};  // whether `asked_` has any: usually not
  absl::Mutex mutex_;
  Files asked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
