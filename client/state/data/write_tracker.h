// Tracks, for one file, errors that occurred after their write had returned, for the descriptors
// that must report them. Which data still needs a COMMIT: client/state/data/uncommitted.h.
//
// Late errors are counted. Each open file description has a cursor into that count, like errseq_t
// in the Linux kernel. fsync(2) reports a new error once for each description and advances its
// cursor. close(2) reports it without advancing the cursor: a descriptor that a forked child closes
// must not consume the error that the parent's fsync is to report. A new description starts before
// an error that no fsync has reported, because its fsync vouches for the data of others, too. Its
// close reports only errors that neither fsync nor close has reported.
// Spec: 6.5.8 (COMMIT).
// Thread-safe: several workers may write to an open file. Nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace dafs::client {

class WriteTracker {
 public:
  // Call after each write that succeeded.
  void NoteWrite() ABSL_LOCKS_EXCLUDED(mutex_);
  // Call when a write failed after write(2) had returned (write-behind), or when its data could
  // not be committed.
  void NoteFailure(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  // User `uid` writes. False: no other user has written since the last call with `uid`.
  bool ExchangeUser(uint32_t uid) {
    return last_user_.exchange(uid, std::memory_order_relaxed) != uid;
  }
  // A description that was opened with O_DIRECT. Its program may read the file at the server
  // (runtime/files/direct_ioctl.h), so no write is answered before the server has it.
  class DirectOpen {
   public:
    explicit DirectOpen(std::shared_ptr<WriteTracker> file) : file_(std::move(file)) {
      file_->direct_opens_.fetch_add(1, std::memory_order_relaxed);
    }
    ~DirectOpen() { file_->direct_opens_.fetch_sub(1, std::memory_order_relaxed); }
    DirectOpen(const DirectOpen&) = delete;
    DirectOpen& operator=(const DirectOpen&) = delete;

   private:
    const std::shared_ptr<WriteTracker> file_;  // shared with the inode table and its opens
  };
  bool has_direct_opens() const { return direct_opens_.load(std::memory_order_relaxed) > 0; }
  // Whether the next write will probably fail: neither fsync nor close has reported the last error,
  // or no write has succeeded since.
  bool doubtful() const ABSL_LOCKS_EXCLUDED(mutex_);
  // NoteOwnerChange records that the file has another owner: a process that opened it as its owner
  // loses the owner's rights. owner_changes counts the calls.
  void NoteOwnerChange() ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t owner_changes() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The late errors that one open file description has reported.
  class ErrorCursor {
    friend class WriteTracker;
    uint64_t fsync_ = 0;
    uint64_t close_ = 0;
  };
  // The cursor for a new description.
  ErrorCursor SampleErrors() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The last error that an fsync of this description has not reported. Advances the cursor.
  absl::Status ErrorForFsync(ErrorCursor& cursor) ABSL_LOCKS_EXCLUDED(mutex_);
  // The last error that a close of this description reports. Does not advance the cursor.
  absl::Status ErrorForClose(const ErrorCursor& cursor) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether no fsync has reported the last error yet.
  bool HasUnseenError() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr uint64_t kNoUser = ~uint64_t{0};

  std::atomic<uint64_t> last_user_{kNoUser};  // publishes no other data
  std::atomic<uint32_t> direct_opens_{0};     // the same
  mutable absl::Mutex mutex_;
  uint64_t owner_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // of the last failure
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failures_seen_ ABSL_GUARDED_BY(mutex_) = 0;      // reported by an fsync
  uint64_t failures_reported_ ABSL_GUARDED_BY(mutex_) = 0;  // by an fsync or a close
  bool failed_last_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dafs::client
