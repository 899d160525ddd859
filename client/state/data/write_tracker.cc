#include "client/state/data/write_tracker.h"

namespace dafs::client {

void WriteTracker::NoteWrite() {
  absl::MutexLock lock(&mutex_);
  failed_last_ = false;
}

void WriteTracker::NoteFailure(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  error_ = status;
  ++failures_;
  failed_last_ = true;
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

}  // namespace dafs::client
