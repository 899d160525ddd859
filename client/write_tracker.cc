#include "client/write_tracker.h"

#include <utility>

namespace dafs::client {
namespace {

absl::Status Forgotten() {
  return absl::UnknownError(
      "the server was restarted with data that was not committed: it may be lost");
}

}  // namespace

void WriteTracker::NoteWrite(const WriteResult& result) {
  absl::MutexLock lock(&mutex_);
  ++writes_;
  if (result.verifier_changed) error_ = Forgotten();
  if (result.committed != wire::StableHow::kFileSync) needs_commit_ = true;
  if (result.committed != wire::StableHow::kUnstable) return;  // the data is safe
  if (verifier_.has_value() && !(*verifier_ == result.verifier)) error_ = Forgotten();
  verifier_ = result.verifier;
}

void WriteTracker::NoteFailure(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (error_.ok()) error_ = status;
}

bool WriteTracker::dirty() const {
  absl::MutexLock lock(&mutex_);
  return needs_commit_ || !error_.ok();
}

bool WriteTracker::uncommitted() const {
  absl::MutexLock lock(&mutex_);
  return needs_commit_;
}

absl::Status WriteTracker::TakeError() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(error_, absl::OkStatus());
}

void WriteTracker::Forget() {
  absl::MutexLock lock(&mutex_);
  verifier_.reset();
  needs_commit_ = false;
}

WriteTracker::Mark WriteTracker::BeforeCommit() const {
  absl::MutexLock lock(&mutex_);
  return {verifier_, writes_};
}

absl::Status WriteTracker::AfterCommit(const Mark& mark,
                                       const absl::StatusOr<wire::Verifier>& committed) {
  absl::MutexLock lock(&mutex_);
  if (!committed.ok()) return committed.status();  // the data is as uncommitted as before
  if (mark.verifier.has_value() && !(*mark.verifier == *committed)) error_ = Forgotten();
  // What was written meanwhile waits for the next COMMIT.
  if (writes_ == mark.writes) {
    verifier_.reset();
    needs_commit_ = false;
  }
  return std::exchange(error_, absl::OkStatus());
}

}  // namespace dafs::client
