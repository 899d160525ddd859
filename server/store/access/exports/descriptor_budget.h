// How many descriptors the server holds, and whether it may hold more. Some are for objects, some
// for locks. Thread-safe; nothing blocks.
#pragma once

#include <atomic>
#include <cstddef>

#include "server/store/objects/descriptor_cache.h"

namespace dafs::server {

class DescriptorBudget {
 public:
  // `wanted` 0: three quarters of RLIMIT_NOFILE. `cache` is borrowed, and may be constructed later.
  DescriptorBudget(size_t wanted, DescriptorCache& cache);

  size_t most() const { return most_; }
  // A count; publishes no other data.
  std::atomic<size_t>& of_locks() { return of_locks_; }
  size_t of_objects() const { return cache_.descriptors().load(std::memory_order_relaxed); }

  // Whether another open may pin descriptors: as long as room is left for locks.
  bool MayPin() const { return of_objects() < most_ / 2; }
  // Whether a delegation may pin descriptors. It stays after the file is closed, so it leaves room
  // for opens.
  bool MayPinForDelegation() const { return of_objects() < most_ / 4; }
  // Whether another owner may have locks. Each owner takes one or two descriptors; idle files
  // release theirs to make room.
  bool MayLock() const { return of_locks_.load(std::memory_order_relaxed) < most_ / 3 * 2; }

 private:
  const size_t most_;
  DescriptorCache& cache_;
  std::atomic<size_t> of_locks_{0};
};

}  // namespace dafs::server
