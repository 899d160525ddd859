// The handle of the mount's root. It may be volatile, as that of a pseudo file system that a server
// makes anew whenever it starts. It ends as well when the server loses the key of its handles, or
// the exported directory is replaced by another. In all these cases the root is looked up again by
// its path. Below the root the kernel does that by itself, name by name, wherever a call fails with
// ESTALE.
// Spec: 4.1.4 (volatile filehandles, recovery from FHEXPIRED).
//
// Whoever uses the root goes by the handle that was found first, as long as the mount lasts; what
// the server knows it by at present takes its place in each request (client/recovery/runner.h).
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
  // By Files::Mount: what was known before is forgotten.
  void Found(const wire::FileHandle& handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // What the server knows the root by; nullopt: it was not found yet.
  std::optional<wire::FileHandle> Latest() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What the server knows the root by, if `handle` is one that it knew it by; nullopt: it is
  // something else's.
  std::optional<wire::FileHandle> Present(const wire::FileHandle& handle) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // `expired` is over, and the root was found again under `handle`. False if another thread was
  // quicker, or the two are the same.
  bool Renew(const wire::FileHandle& expired, const wire::FileHandle& handle)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The present handle is over, and the root was not found. True for the first such report after
  // Found or Renew: that one is worth a log line.
  bool ReportLost() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether there is more than one by now.
  bool renewed() const { return renewed_.load(std::memory_order_relaxed); }

 private:
  // Of a server that has given more the first and the latest are known.
  static constexpr size_t kMost = 64;

  std::atomic<bool> renewed_{false};  // a hint; what it hints at is behind the mutex
  mutable absl::Mutex mutex_;
  std::vector<wire::FileHandle> handles_ ABSL_GUARDED_BY(mutex_);  // the present one is the last
  bool is_reported_lost_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dafs::client
