// Remembers, for one file, whether anything was written that a COMMIT has yet to make safe, and
// errors that came too late for the write they were about. The data itself is in
// client/state/uncommitted.h.
//
// Late errors are counted, and each open file description has a cursor into that count, as errseq_t
// of the Linux kernel has. fsync(2) reports a new error once for each description and advances its
// cursor. close(2) reports it without advancing the cursor: a descriptor that a forked child closes
// must not consume the error that the parent's fsync is to report. A new description starts before
// an error that no fsync has reported, because its fsync vouches for the data of others, too. Its
// close reports only what neither fsync nor close has reported.
// Spec: 6.5.8 (COMMIT).
// Thread-safe: an open file may be written by several workers. Nothing blocks.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/state/data_results.h"
#include "wire/protocol/types.h"

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
  // Whether the next write will probably fail: neither fsync nor close has reported the last error,
  // or no write has succeeded since.
  bool doubtful() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The file is given to another owner: what one who opened it could do as its owner, he cannot any
  // more. How often that was.
  void NoteOwnerChange() ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t owner_changes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The file is gone: nothing of it is left to be committed.
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_);

  // Which late errors one open file description has reported.
  class ErrorCursor {
    friend class WriteTracker;
    uint64_t fsync_ = 0;
    uint64_t close_ = 0;
  };
  // The cursor of a description that is opened now.
  ErrorCursor SampleErrors() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The last error that an fsync of this description has not reported. Advances the cursor.
  absl::Status ErrorForFsync(ErrorCursor& cursor) ABSL_LOCKS_EXCLUDED(mutex_);
  // The last error that a close of one of its descriptors reports. Leaves the cursor where it is.
  absl::Status ErrorForClose(const ErrorCursor& cursor) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether no fsync has reported the last error yet.
  bool HasUnseenError() const ABSL_LOCKS_EXCLUDED(mutex_);

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
  uint64_t failures_seen_ ABSL_GUARDED_BY(mutex_) = 0;      // reported by an fsync
  uint64_t failures_reported_ ABSL_GUARDED_BY(mutex_) = 0;  // by an fsync or a close
  bool failed_last_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dafs::client
