#include "client/state/write_tracker.h"

namespace dafs::client {

void WriteTracker::NoteWrite(const WriteResult& result) {
  absl::MutexLock lock(&mutex_);
  ++writes_;
  failed_last_ = false;
  if (result.committed != wire::StableHow::kFileSync) needs_commit_ = true;
}

void WriteTracker::NoteFailure(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  error_ = status;
  ++failures_;
  failed_last_ = true;
}

bool WriteTracker::uncommitted() const {
  absl::MutexLock lock(&mutex_);
  return needs_commit_;
}

bool WriteTracker::doubtful() const {
  absl::MutexLock lock(&mutex_);
  return failed_last_ || failures_reported_ != failures_;
}

void WriteTracker::NoteOwnerChange() {
  absl::MutexLock lock(&mutex_);
  ++owner_changes_;
}

uint64_t WriteTracker::owner_changes() const {
  absl::MutexLock lock(&mutex_);
  return owner_changes_;
}

void WriteTracker::Forget() {
  absl::MutexLock lock(&mutex_);
  needs_commit_ = false;
}

WriteTracker::ErrorCursor WriteTracker::SampleErrors() const {
  absl::MutexLock lock(&mutex_);
  ErrorCursor cursor;
  cursor.fsync_ = failures_seen_;
  cursor.close_ = failures_reported_;
  return cursor;
}

absl::Status WriteTracker::ErrorForFsync(ErrorCursor& cursor) {
  absl::MutexLock lock(&mutex_);
  if (cursor.fsync_ == failures_) return absl::OkStatus();
  cursor.fsync_ = cursor.close_ = failures_;
  failures_seen_ = failures_reported_ = failures_;
  return error_;
}

absl::Status WriteTracker::ErrorForClose(const ErrorCursor& cursor) {
  absl::MutexLock lock(&mutex_);
  if (cursor.close_ == failures_) return absl::OkStatus();
  failures_reported_ = failures_;
  return error_;
}

bool WriteTracker::HasUnseenError() const {
  absl::MutexLock lock(&mutex_);
  return failures_seen_ != failures_;
}

WriteTracker::Mark WriteTracker::BeforeCommit() const {
  absl::MutexLock lock(&mutex_);
  return {writes_};
}

absl::Status WriteTracker::AfterCommit(const Mark& mark,
                                       const absl::StatusOr<wire::Verifier>& committed) {
  if (!committed.ok()) return committed.status();
  absl::MutexLock lock(&mutex_);
  // Data written meanwhile needs another COMMIT.
  if (writes_ == mark.writes) needs_commit_ = false;
  return absl::OkStatus();
}

}  // namespace dafs::client
