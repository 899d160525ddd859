#include "client/state/records/session_records.h"

namespace dafs::client {

void SessionRecords::RecordIn(StateRecorder* recorder) {
  absl::MutexLock lock(&mutex_);
  recorder_ = recorder;
  for (auto& [session_id, entry] : entries_) {
    entry.slot = recorder->PutSession({session_id, entry.auth});
  }
}

void SessionRecords::Established(const Session& session) { Add(session, false); }

void SessionRecords::AddLeft(const Session& session) { Add(session, true); }

void SessionRecords::Add(const Session& session, bool is_left) {
  absl::MutexLock lock(&mutex_);
  const auto [it, inserted] = entries_.try_emplace(session.session_id);
  if (!inserted) return;
  it->second.auth = session.auth;
  it->second.is_left = is_left;
  if (recorder_ == nullptr) return;
  it->second.slot = recorder_->PutSession({session.session_id, session.auth});
}

void SessionRecords::Ended(const wire::SessionId& session_id) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(session_id);
  if (it == entries_.end()) return;
  if (recorder_ != nullptr) recorder_->Drop(it->second.slot);
  entries_.erase(it);
}

std::optional<SessionRecords::Session> SessionRecords::FindLeft() const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [session_id, entry] : entries_) {
    if (entry.is_left) return Session{session_id, entry.auth};
  }
  return std::nullopt;
}

}  // namespace dafs::client
