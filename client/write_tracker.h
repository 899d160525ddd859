// Remembers, for one file, whether anything was written that a COMMIT has yet to make safe, and
// errors that came too late for the write they were about. The data itself is in
// client/uncommitted.h.
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
  // A write failed after the application had been told that it was done (write-behind), or its
  // data could not be made safe.
  void NoteFailure(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether something was written that is not yet FILE_SYNC.
  bool uncommitted() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the next write may well fail: nobody was told of the last failure, or no write has
  // succeeded since.
  bool doubtful() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The file is given to another owner: what one who opened it could do as its owner, he cannot any
  // more. How often that was.
  void NoteOwnerChange() ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t owner_changes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The file is gone: nothing of it is left to be committed.
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_);

  // How far one open file was told of failures. The tracker's alone to look at.
  class Told {
    friend class WriteTracker;
    uint64_t failures_ = 0;
  };
  // For a file that is opened now: what somebody was told before is not its business.
  Told Sample() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What the fsync or close of an open file has to tell: the last failure, to each open file once.
  absl::Status TakeError(Told& told) ABSL_LOCKS_EXCLUDED(mutex_);

  // Before COMMIT is sent.
  struct Mark {
    uint64_t writes = 0;
  };
  Mark BeforeCommit() const ABSL_LOCKS_EXCLUDED(mutex_);
  // After COMMIT: how it went. If not well, the data is as uncommitted as before.
  absl::Status AfterCommit(const Mark& mark, const absl::StatusOr<wire::Verifier>& committed)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  bool needs_commit_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t owner_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t writes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // of the last failure
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failures_told_ ABSL_GUARDED_BY(mutex_) = 0;  // to anybody
  bool failed_last_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dafs::client
