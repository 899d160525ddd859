#include "client/state/credentials.h"

#include <iterator>

namespace dafs::client {

void Credentials::RecordIn(StateRecorder* recorder) {
  absl::MutexLock lock(&mutex_);
  recorder_ = recorder;
  for (Entry& entry : entries_) {
    entry.slot = recorder->PutCredential(client_id_, entry.user, entry.handle);
  }
}

void Credentials::Erase(std::list<Entry>::iterator entry) {
  if (recorder_ != nullptr) recorder_->Drop(entry->slot);
  by_identity_.erase(entry->user);
  entries_.erase(entry);
}

std::optional<wire::CredHandle> Credentials::Find(const wire::ClientId& client_id,
                                                  const Identity& user) {
  absl::MutexLock lock(&mutex_);
  if (!(client_id == client_id_)) return std::nullopt;
  auto it = by_identity_.find(user);
  if (it == by_identity_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->handle;
}

std::vector<wire::CredHandle> Credentials::Insert(const wire::ClientId& client_id,
                                                  const Identity& user,
                                                  const wire::CredHandle& handle, uint32_t most) {
  absl::MutexLock lock(&mutex_);
  std::vector<wire::CredHandle> useless;
  if (!(client_id == client_id_)) {
    // Handles of another client_id need no release: the server has dropped them.
    client_id_ = client_id;
    while (!entries_.empty()) Erase(entries_.begin());
  }
  if (auto it = by_identity_.find(user); it != by_identity_.end()) {
    if (!(it->second->handle == handle)) useless.push_back(handle);
    return useless;
  }
  entries_.push_front({user, handle, 0});
  by_identity_[user] = entries_.begin();
  if (recorder_ != nullptr) {
    entries_.front().slot = recorder_->PutCredential(client_id, user, handle);
  }
  while (entries_.size() > most && entries_.size() > 1) {
    useless.push_back(entries_.back().handle);
    Erase(std::prev(entries_.end()));
  }
  return useless;
}

void Credentials::Forget(const wire::CredHandle& handle) {
  absl::MutexLock lock(&mutex_);
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (!(it->handle == handle)) continue;
    return Erase(it);
  }
}

std::optional<wire::CredHandle> Credentials::TakeOldest() {
  absl::MutexLock lock(&mutex_);
  if (entries_.empty()) return std::nullopt;
  wire::CredHandle handle = entries_.back().handle;
  Erase(std::prev(entries_.end()));
  return handle;
}

size_t Credentials::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

std::vector<Credentials::Entry> Credentials::Save(wire::ClientId* client_id) const {
  absl::MutexLock lock(&mutex_);
  *client_id = client_id_;
  return {entries_.begin(), entries_.end()};
}

}  // namespace dafs::client
