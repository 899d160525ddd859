// Files of which written data did not reach the server's disk, until a caller has taken the error
// to report it. Which data still needs a COMMIT: client/state/data/uncommitted.h.
// Thread-safe: shared by the workers of a client. Nothing blocks.
#pragma once

#include <atomic>
#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class LostData {
 public:
  // Records `why` for Take, unless an earlier error of the file was not taken yet. `once`: only if
  // this is the first one since the last Recovered. Returns whether it is.
  bool Note(const wire::FileHandle& file, const absl::Status& why, bool once = false)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for data that was dropped: no COMMIT of it follows, so the next error is a new one.
  void NoteDropped(const wire::FileHandle& file, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    Note(file, why);
    Recovered(file);
  }
  // Returns the error of `file`, once. Does not lock the mutex while no file has one.
  absl::Status Take(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a file has an error that was not taken.
  bool any() const ABSL_LOCKS_EXCLUDED(mutex_);
  // A COMMIT of `file` has succeeded.
  void Recovered(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Loss {
    absl::Status why;  // OK: taken
    bool recovered = false;
  };

  std::atomic<size_t> files_{0};  // losses_.size(): saves the mutex
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<wire::FileHandle, Loss> losses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
