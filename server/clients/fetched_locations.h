// The alternate locations that a client has fetched, and whether one of them has changed since.
// Spec: 5.3.1 (DAFS_SPCOND_FAILOVER).
// Thread-safe; nothing blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class FetchedLocations {
 public:
  using Locations = std::vector<wire::FsLocations>;
  // The locations of an export now; those of a removed one are those that it had.
  using Now = std::function<Locations(size_t export_index)>;

  // The client has got the value of the attribute for this export.
  void Fetched(size_t export_index, Locations locations, const Now& now)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The exports may have changed.
  void Compare(const Now& now) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a value that the client has is out of date: its responses carry the flag. One load.
  bool changed() const { return changed_.load(std::memory_order_relaxed); }

 private:
  void CompareAll(const Now& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  absl::flat_hash_map<size_t, Locations> fetched_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> changed_{false};  // publishes nothing but itself
};

}  // namespace dafs::server
