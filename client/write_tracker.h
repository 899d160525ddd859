// Remembers, for one file, whether anything was written that a COMMIT has yet to make safe, and
// errors that are to be told by the next fsync. The data itself is in client/uncommitted.h.
// Spec: 6.5.8 (COMMIT).
// Thread-safe: an open file may be written by several workers. Nothing blocks.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/data_results.h"
#include "wire/types.h"

namespace dafs::client {

class WriteTracker {
 public:
  // After every write that was answered.
  void NoteWrite(const WriteResult& result) ABSL_LOCKS_EXCLUDED(mutex_);
  // A write failed after the application had been told that it was done (write-back).
  void NoteFailure(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether a COMMIT is needed at all: something was written that is not yet FILE_SYNC, or an error
  // is to be told.
  bool dirty() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether something was written that is not yet FILE_SYNC.
  bool uncommitted() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the next write may well fail: an error is still to be told, or none has succeeded
  // since.
  bool doubtful() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The error to be told, once.
  absl::Status TakeError() ABSL_LOCKS_EXCLUDED(mutex_);
  // The file is gone: nothing of it is left to be committed.
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_);

  // Before COMMIT is sent.
  struct Mark {
    uint64_t writes = 0;
  };
  Mark BeforeCommit() const ABSL_LOCKS_EXCLUDED(mutex_);
  // After COMMIT: OK, or the error fsync must give, once.
  absl::Status AfterCommit(const Mark& mark, const absl::StatusOr<wire::Verifier>& committed)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  bool needs_commit_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t writes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // to be told by the next fsync
  bool failed_last_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dafs::client
