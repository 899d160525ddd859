// Caches where this mount has recently seen symbolic links, FIFOs, sockets and devices. The kernel
// looks such names up each time (EntryReplies), so that open(2) finds what another client has
// put in their place. Calls that only inspect, such as lstat(2) and readlink(2), are answered from
// this cache, as they would be from the kernel's.
//
// Thread-safe: shared by the workers of a mount. Nothing blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/promises.h"
#include "fuse/cache/place.h"

namespace dafs::fuse {

class KnownLinks {
 public:
  static constexpr size_t kMost = 4096;
  static constexpr size_t kLeft = kMost / 4 * 3;  // at most, after an eviction

  KnownLinks() = default;
  KnownLinks(const KnownLinks&) = delete;
  KnownLinks& operator=(const KnownLinks&) = delete;

  struct Link {
    uint64_t nodeid = 0;         // 0: not known
    absl::Time asked;            // before the request was sent
    absl::Time until;            // how long the kernel may use the reply
    client::Promise names = {};  // of the directory, if the reply promised them
  };
  // Saves the caller the mutex, and the construction of a Place.
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  // The server has replied that `place` leads to `link`.
  void Told(const Place& place, const Link& link) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the link at `place`, if it is still valid at `now`.
  Link Find(const Place& place, absl::Time now) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Place, Link> links_ ABSL_GUARDED_BY(mutex_);
  // links_.size(). Publishes nothing.
  std::atomic<size_t> count_{0};
};

}  // namespace dafs::fuse
