// The kernel's handles of open files and directories: a number for each, never reused. Thread-safe:
// each shard has a mutex, held for one lookup.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace dafs::fuse {

// Shared pointers, because an abandoned call may outlive the RELEASE of its handle. The owners are
// the table and the calls in progress.
template <class T>
class HandleTable {
 public:
  uint64_t Add(std::shared_ptr<T> item) {
    uint64_t fh = next_.fetch_add(1, std::memory_order_relaxed);
    Shard& shard = shards_[fh % kShards];
    absl::MutexLock lock(&shard.mutex);
    shard.items.emplace(fh, std::move(item));
    return fh;
  }
  // Returns nullptr if there is no such handle.
  std::shared_ptr<T> Find(uint64_t fh) const {
    Shard& shard = shards_[fh % kShards];
    absl::MutexLock lock(&shard.mutex);
    auto it = shard.items.find(fh);
    return it == shard.items.end() ? nullptr : it->second;
  }
  std::shared_ptr<T> Remove(uint64_t fh) {
    Shard& shard = shards_[fh % kShards];
    absl::MutexLock lock(&shard.mutex);
    auto it = shard.items.find(fh);
    if (it == shard.items.end()) return nullptr;
    std::shared_ptr<T> item = std::move(it->second);
    shard.items.erase(it);
    return item;
  }
  // Returns an item for which `holds` is true; nullptr if there is none. Calls `holds` with a lock
  // held. Checks all items.
  std::shared_ptr<T> FindIf(absl::FunctionRef<bool(const T&)> holds) const {
    for (Shard& shard : shards_) {
      absl::MutexLock lock(&shard.mutex);
      for (const auto& [fh, item] : shard.items) {
        if (holds(*item)) return item;
      }
    }
    return nullptr;
  }
  // For the program that continues the mount (docs/restart.md). Calls `visit(fh, item)` for each
  // item, with a lock held.
  void ForEach(absl::FunctionRef<void(uint64_t, const T&)> visit) const {
    for (Shard& shard : shards_) {
      absl::MutexLock lock(&shard.mutex);
      for (const auto& [fh, item] : shard.items) visit(fh, *item);
    }
  }
  uint64_t next() const { return next_.load(std::memory_order_relaxed); }
  // Before the first request: the next handle, and an item of the earlier process. False: its
  // handle is in use, or could be given again.
  void SetNext(uint64_t next) { next_.store(next, std::memory_order_relaxed); }
  bool Restore(uint64_t fh, std::shared_ptr<T> item) {
    if (fh == 0 || fh >= next()) return false;
    Shard& shard = shards_[fh % kShards];
    absl::MutexLock lock(&shard.mutex);
    return shard.items.emplace(fh, std::move(item)).second;
  }
  size_t size() const {
    size_t count = 0;
    for (Shard& shard : shards_) {
      absl::MutexLock lock(&shard.mutex);
      count += shard.items.size();
    }
    return count;
  }

 private:
  static constexpr uint64_t kShards = 16;
  struct Shard {
    mutable absl::Mutex mutex;
    absl::flat_hash_map<uint64_t, std::shared_ptr<T>> items ABSL_GUARDED_BY(mutex);
  };
  std::atomic<uint64_t> next_{1};  // gives numbers only; publishes nothing
  mutable std::array<Shard, kShards> shards_;
};

}  // namespace dafs::fuse
