#include "client/state/opens.h"

#include <utility>

namespace dafs::client {

void Opens::Record(const wire::StateId& name, Entry& entry) {
  if (recorder_ == nullptr) return;
  entry.slot = recorder_->PutOpen({.name = name,
                                   .info = *entry.info,
                                   .state_id = entry.state_id,
                                   .client_id = entry.client_id,
                                   .is_local = entry.is_local,
                                   .closing = entry.closing,
                                   .lost = entry.lost},
                                  entry.slot);
}

// Two OPENs of a file by one owner are one open (8.10); so is an OPEN that was issued again.
wire::StateId Opens::Known(const OpenInfo& info, const wire::StateId& state_id,
                           const wire::ClientId& client_id) const {
  if (const auto known = by_state_id_.find(state_id); known != by_state_id_.end()) {
    const Entry& entry = entries_.find(known->second)->second;
    if (entry.client_id == client_id && entry.info->handle == info.handle &&
        entry.info->owner == info.owner) {
      return known->second;
    }
  }
  if (restored_.empty()) return {};
  const auto restored = restored_.find(OwnerOf(info));
  if (restored == restored_.end()) return {};
  const Entry& entry = entries_.find(restored->second)->second;
  return entry.is_local || !entry.lost.ok() ? wire::StateId() : restored->second;
}

void Opens::DropStateId(const wire::StateId& name, const Entry& entry) {
  const auto old = by_state_id_.find(entry.state_id);
  if (old != by_state_id_.end() && old->second == name) by_state_id_.erase(old);
}

void Opens::SetStateId(const wire::StateId& name, Entry& entry, const wire::StateId& state_id,
                       const wire::ClientId& client_id) {
  DropStateId(name, entry);
  entry.state_id = state_id;
  entry.client_id = client_id;
  entry.is_local = false;
  if (!state_id.is_zero()) by_state_id_[state_id] = name;
}

wire::StateId Opens::Add(OpenInfo info, const wire::StateId& state_id,
                         const wire::ClientId& client_id) {
  absl::MutexLock lock(&mutex_);
  if (const wire::StateId known = Known(info, state_id, client_id); !known.is_zero()) {
    Entry& entry = entries_[known];
    info.share_access |= entry.info->share_access;
    info.share_deny |= entry.info->share_deny;
    info.deny_delete |= entry.info->deny_delete;
    if (!info.share_key.has_value()) info.share_key = entry.info->share_key;
    entry.info = std::make_shared<const OpenInfo>(std::move(info));
    entry.closing = false;
    // A response that was stored before the server restarted is older than a reclaim.
    if (entry.client_id != client_id_ || client_id == client_id_) {
      SetStateId(known, entry, state_id, client_id);
    }
    Record(known, entry);
    return known;
  }
  const auto name = wire::OpaqueFromUint64<wire::StateId>(++last_name_);
  Entry& entry = entries_[name];
  entry.info = std::make_shared<const OpenInfo>(std::move(info));
  entry.state_id = state_id;
  entry.client_id = client_id;
  by_state_id_[state_id] = name;
  Record(name, entry);
  return name;
}

wire::StateId Opens::AddLocal(OpenInfo info, const wire::StateId& state_id,
                              const wire::ClientId& client_id) {
  absl::MutexLock lock(&mutex_);
  const auto name = wire::OpaqueFromUint64<wire::StateId>(++last_name_);
  Entry& entry = entries_[name];
  entry.info = std::make_shared<const OpenInfo>(std::move(info));
  entry.state_id = state_id;
  entry.client_id = client_id;
  entry.is_local = true;
  Record(name, entry);
  return name;
}

std::optional<Opens::Entry> Opens::Find(const wire::StateId& open) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = entries_.find(open);
  if (it == entries_.end()) return std::nullopt;
  return it->second;
}

std::shared_ptr<const OpenInfo> Opens::InfoOf(const wire::StateId& open) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = entries_.find(open);
  return it != entries_.end() ? it->second.info : nullptr;
}

std::optional<wire::StateId> Opens::StateIdOf(const wire::StateId& open,
                                              const wire::ClientId& client_id) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = entries_.find(open);
  if (it == entries_.end() || !(it->second.client_id == client_id) || !it->second.lost.ok()) {
    return std::nullopt;
  }
  return it->second.state_id;
}

bool Opens::Forgotten(const wire::StateId& open, const wire::StateId& state_id) {
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(open);
  if (it == entries_.end() || !(it->second.state_id == state_id)) return false;
  it->second.client_id = wire::ClientId();
  it->second.is_local = false;
  Record(open, it->second);
  return true;
}

void Opens::Downgraded(const wire::StateId& open, uint32_t share_access, uint32_t share_deny) {
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(open);
  if (it == entries_.end()) return;
  OpenInfo info = *it->second.info;
  info.share_access = share_access;
  info.share_deny = share_deny;
  it->second.info = std::make_shared<const OpenInfo>(std::move(info));
  Record(open, it->second);
}

bool Opens::Reclaimed(const wire::StateId& open, const wire::StateId& state_id,
                      const wire::ClientId& client_id) {
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(open);
  if (it == entries_.end()) return false;
  SetStateId(open, it->second, state_id, client_id);
  Record(open, it->second);
  return true;
}

void Opens::Closing(const wire::StateId& open) {
  absl::MutexLock lock(&mutex_);
  if (auto it = entries_.find(open); it != entries_.end()) it->second.closing = true;
}

void Opens::Lost(const wire::StateId& open, absl::Status why) {
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(open);
  if (it == entries_.end() || !it->second.lost.ok()) return;
  it->second.lost = std::move(why);
  Record(open, it->second);
}

void Opens::LostAllOf(const wire::FileHandle& file, const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  for (auto& [open, entry] : entries_) {
    if (!entry.lost.ok() || entry.info->handle != file) continue;
    entry.lost = why;
    Record(open, entry);
  }
}

std::optional<Opens::Entry> Opens::Remove(const wire::StateId& open) {
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(open);
  if (it == entries_.end()) return std::nullopt;
  DropStateId(open, it->second);
  if (!restored_.empty()) {
    const auto restored = restored_.find(OwnerOf(*it->second.info));
    if (restored != restored_.end() && restored->second == open) restored_.erase(restored);
  }
  if (recorder_ != nullptr) recorder_->Drop(it->second.slot);
  Entry removed = std::move(it->second);
  entries_.erase(it);
  return removed;
}

void Opens::Merge(const wire::StateId& open, const wire::StateId& kept) {
  if (open == kept || !Remove(open).has_value()) return;
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(kept);
  if (it == entries_.end() || it->second.is_local || it->second.state_id.is_zero()) return;
  by_state_id_.emplace(it->second.state_id, kept);
}

std::vector<wire::StateId> Opens::Stale(const wire::ClientId& client_id) const {
  std::vector<wire::StateId> stale;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [open, entry] : entries_) {
    if (!(entry.client_id == client_id) && entry.lost.ok()) stale.push_back(open);
  }
  return stale;
}

size_t Opens::size() const {
  absl::ReaderMutexLock lock(&mutex_);
  return entries_.size();
}

Opens::Saved Opens::Save() const {
  absl::ReaderMutexLock lock(&mutex_);
  return {last_name_, {entries_.begin(), entries_.end()}};
}

bool Opens::Restore(Saved saved) {
  absl::MutexLock lock(&mutex_);
  last_name_ = saved.last_name;
  for (auto& [name, entry] : saved.entries) {
    const uint64_t number = wire::OpaqueToUint64(name);
    if (number == 0 || number > last_name_) return false;
    const bool is_valid = !entry.state_id.is_zero() && !entry.client_id.is_zero();
    if (is_valid && !entry.is_local) by_state_id_.emplace(entry.state_id, name);
    entry.slot = 0;
    const auto [restored, is_new] = entries_.emplace(name, std::move(entry));
    if (!is_new) return false;
    restored_.emplace(OwnerOf(*restored->second.info), name);
    Record(name, restored->second);
  }
  return true;
}

}  // namespace dafs::client
