// The filehandle of the mount's root. It may be volatile: a server that builds a pseudo file system
// at each start gives new handles. It also becomes invalid if the server loses the key of its
// handles, or if another directory replaces the exported one. In all these cases the client looks
// the root up again by its path. Below the root the kernel looks names up again after a call fails
// with ESTALE.
// Spec: 4.1.4 (volatile filehandles, recovery from FHEXPIRED).
//
// Users of the root keep the handle that was found first for the lifetime of the mount. In each
// request the server's present handle replaces it (client/recovery/request_executor.h).
// Thread-safe. Nothing blocks.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class RootHandle {
 public:
  // Called by Files::Mount: stores the first handle and drops earlier ones.
  void Found(const wire::FileHandle& handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // All handles, the first one first. Restore: for a program that continues the client
  // (docs/restart.md).
  std::vector<wire::FileHandle> Save() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Restore(std::vector<wire::FileHandle> handles) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server's present handle of the root; nullopt: not looked up yet.
  std::optional<wire::FileHandle> Latest() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The server's present handle of the root if `handle` is or was a handle of the root; nullopt
  // otherwise.
  std::optional<wire::FileHandle> Present(const wire::FileHandle& handle) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The handle that users of the root keep, if `handle` is or was a handle of the root; nullopt
  // otherwise.
  std::optional<wire::FileHandle> Kept(const wire::FileHandle& handle) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Call when `expired` is invalid and the root was found again as `handle`. False: another
  // thread was faster, or the two are equal.
  bool Renew(const wire::FileHandle& expired, const wire::FileHandle& handle)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Call when the present handle is invalid and the lookup failed. Returns true for the first
  // call after Found or Renew: the caller logs that one.
  bool ReportLost() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the root has had more than one handle.
  bool renewed() const { return renewed_.load(std::memory_order_relaxed); }

 private:
  // The maximum number of handles kept. Beyond it the oldest is dropped, except the first.
  static constexpr size_t kMost = 64;

  std::atomic<bool> renewed_{false};  // a hint; the mutex guards the handles themselves
  mutable absl::Mutex mutex_;
  std::vector<wire::FileHandle> handles_ ABSL_GUARDED_BY(mutex_);  // the last is the present one
  bool is_reported_lost_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dafs::client
