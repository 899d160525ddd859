#include "client/write_tracker.h"

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
  return failed_last_ || failures_told_ != failures_;
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

WriteTracker::Told WriteTracker::Sample() const {
  absl::MutexLock lock(&mutex_);
  Told told;
  told.failures_ = failures_told_;
  return told;
}

absl::Status WriteTracker::TakeError(Told& told) {
  absl::MutexLock lock(&mutex_);
  if (told.failures_ == failures_) return absl::OkStatus();
  told.failures_ = failures_told_ = failures_;
  return error_;
}

WriteTracker::Mark WriteTracker::BeforeCommit() const {
  absl::MutexLock lock(&mutex_);
  return {writes_};
}

absl::Status WriteTracker::AfterCommit(const Mark& mark,
                                       const absl::StatusOr<wire::Verifier>& committed) {
  if (!committed.ok()) return committed.status();
  absl::MutexLock lock(&mutex_);
  // What was written meanwhile waits for the next COMMIT.
  if (writes_ == mark.writes) needs_commit_ = false;
  return absl::OkStatus();
}

}  // namespace dafs::client
