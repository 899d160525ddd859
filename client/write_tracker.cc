#include "client/write_tracker.h"

#include <utility>

namespace dafs::client {

void WriteTracker::NoteWrite(const WriteResult& result) {
  absl::MutexLock lock(&mutex_);
  ++writes_;
  failed_last_ = false;
  if (result.committed != wire::StableHow::kFileSync) needs_commit_ = true;
}

void WriteTracker::NoteFailure(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (error_.ok()) error_ = status;
  failed_last_ = true;
}

bool WriteTracker::dirty() const {
  absl::MutexLock lock(&mutex_);
  return needs_commit_ || !error_.ok();
}

bool WriteTracker::uncommitted() const {
  absl::MutexLock lock(&mutex_);
  return needs_commit_;
}

bool WriteTracker::doubtful() const {
  absl::MutexLock lock(&mutex_);
  return failed_last_ || !error_.ok();
}

absl::Status WriteTracker::TakeError() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(error_, absl::OkStatus());
}

void WriteTracker::Forget() {
  absl::MutexLock lock(&mutex_);
  needs_commit_ = false;
}

WriteTracker::Mark WriteTracker::BeforeCommit() const {
  absl::MutexLock lock(&mutex_);
  return {writes_};
}

absl::Status WriteTracker::AfterCommit(const Mark& mark,
                                       const absl::StatusOr<wire::Verifier>& committed) {
  absl::MutexLock lock(&mutex_);
  if (!committed.ok()) return committed.status();  // the data is as uncommitted as before
  // What was written meanwhile waits for the next COMMIT.
  if (writes_ == mark.writes) needs_commit_ = false;
  return std::exchange(error_, absl::OkStatus());
}

}  // namespace dafs::client
