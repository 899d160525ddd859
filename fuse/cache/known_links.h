// Where this mount has lately seen symbolic links, FIFOs, sockets and devices. The kernel looks
// such names up each time (Operations::Entry), so that open(2) finds what another client has put in
// their place. A call that only looks, as lstat(2) and readlink(2), is answered from here
// meanwhile, as it would be from the kernel's cache.
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
#include "fuse/cache/place.h"

namespace dafs::fuse {

class KnownLinks {
 public:
  static constexpr size_t kMost = 4096;
  static constexpr size_t kLeft = kMost / 4 * 3;  // of these at most, after some had to go

  KnownLinks() = default;
  KnownLinks(const KnownLinks&) = delete;
  KnownLinks& operator=(const KnownLinks&) = delete;

  struct Link {
    uint64_t nodeid = 0;  // 0: not known
    absl::Time asked;     // before the server was asked
    absl::Time until;     // how long the kernel may believe the answer
  };
  // Spares the caller the mutex, and making a Place.
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  // The server has said that `place` leads to `link`.
  void Told(const Place& place, const Link& link) ABSL_LOCKS_EXCLUDED(mutex_);
  // What is still good at `now`.
  Link Find(const Place& place, absl::Time now) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Place, Link> links_ ABSL_GUARDED_BY(mutex_);
  // links_.size(). Publishes nothing.
  std::atomic<size_t> count_{0};
};

}  // namespace dafs::fuse
