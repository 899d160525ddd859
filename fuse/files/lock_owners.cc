#include "fuse/files/lock_owners.h"

#include <utility>

#include "wire/protocol/process_owner.h"

namespace dafs::fuse {

LockOwnerRef LockOwners::Enter(const LockOwner& fresh, uint64_t handle, uint32_t pid) {
  const Key key(fresh.nodeid, fresh.kernel_owner);
  absl::MutexLock lock(&mutex_);
  LockOwnerRef& owner = owners_[key];
  if (owner == nullptr) {
    owner = std::make_shared<LockOwner>(fresh);
    Process& process = processes_[fresh.kernel_owner];
    if (process.owners++ == 0) process.number = ++last_process_;
    owner->process = process.number;
    owner->name = wire::ProcessOwner(owner->process, owner->number);
    by_name_[owner->name] = owner.get();
  }
  ++owner->users;
  owner->pid = pid;
  if (owner->handles.insert(handle).second) {
    by_handle_[handle].insert(key);
    Record(*owner);
  }
  return owner;
}

LockOwnerRef LockOwners::EnterExisting(uint64_t nodeid, uint64_t kernel_owner) {
  absl::MutexLock lock(&mutex_);
  auto it = owners_.find(Key(nodeid, kernel_owner));
  if (it == owners_.end()) return nullptr;
  ++it->second->users;
  return it->second;
}

bool LockOwners::Leave(LockOwner& owner) {
  absl::MutexLock lock(&mutex_);
  return --owner.users == 0 && owner.ended;
}

wire::StateId LockOwners::OpenOf(const LockOwner& owner) const {
  absl::MutexLock lock(&mutex_);
  return owner.state_id;
}

void LockOwners::Opened(LockOwner& owner, const wire::StateId& state_id) {
  absl::MutexLock lock(&mutex_);
  owner.state_id = state_id;
  Record(owner);
}

void LockOwners::Closed(LockOwner& owner) {
  absl::MutexLock lock(&mutex_);
  live_.Drop(std::exchange(owner.live_slot, 0));
}

void LockOwners::Record(LockOwner& owner) {
  owner.live_slot = live_.Put({.nodeid = owner.nodeid,
                               .kernel_owner = owner.kernel_owner,
                               .number = owner.number,
                               .process = owner.process,
                               .name = owner.name,
                               .state_id = owner.state_id,
                               .pid = owner.pid,
                               .handles = {owner.handles.begin(), owner.handles.end()}},
                              owner.ended, owner.live_slot);
}

bool LockOwners::HasEnded(const LockOwner& owner) const {
  absl::MutexLock lock(&mutex_);
  return owner.ended;
}

LockOwners::Ended LockOwners::Remove(const Key& key) {
  auto it = owners_.find(key);
  if (it == owners_.end()) return {};
  LockOwnerRef owner = std::move(it->second);
  owners_.erase(it);
  auto process = processes_.find(key.second);
  if (--process->second.owners == 0) processes_.erase(process);
  by_name_.erase(owner->name);
  for (uint64_t handle : owner->handles) {
    auto of_handle = by_handle_.find(handle);
    if (of_handle == by_handle_.end()) continue;
    of_handle->second.erase(key);
    if (of_handle->second.empty()) by_handle_.erase(of_handle);
  }
  owner->ended = true;
  live_.End(owner->live_slot);
  const bool unused = owner->users == 0;
  return {std::move(owner), unused};
}

LockOwners::Ended LockOwners::End(uint64_t nodeid, uint64_t kernel_owner) {
  absl::MutexLock lock(&mutex_);
  return Remove(Key(nodeid, kernel_owner));
}

std::vector<LockOwners::Ended> LockOwners::EndHandle(uint64_t handle) {
  std::vector<Ended> ended;
  absl::MutexLock lock(&mutex_);
  auto it = by_handle_.find(handle);
  if (it == by_handle_.end()) return ended;
  const absl::flat_hash_set<Key> keys = std::move(it->second);
  by_handle_.erase(it);
  for (const Key& key : keys) {
    LockOwner& owner = *owners_.find(key)->second;
    owner.handles.erase(handle);
    if (owner.handles.empty()) ended.push_back(Remove(key));
  }
  return ended;
}

std::optional<uint32_t> LockOwners::PidOf(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  auto it = by_name_.find(name);
  if (it == by_name_.end()) return std::nullopt;
  return it->second->pid;
}

size_t LockOwners::size() const {
  absl::MutexLock lock(&mutex_);
  return owners_.size();
}

uint64_t LockOwners::last_process() const {
  absl::MutexLock lock(&mutex_);
  return last_process_;
}

std::vector<LockOwner> LockOwners::Save(uint64_t* last_process) const {
  std::vector<LockOwner> saved;
  absl::MutexLock lock(&mutex_);
  *last_process = last_process_;
  for (const auto& [key, owner] : owners_) saved.push_back(*owner);
  return saved;
}

bool LockOwners::Restore(std::vector<LockOwner> owners, uint64_t last_process) {
  absl::MutexLock lock(&mutex_);
  last_process_ = last_process;
  for (LockOwner& saved : owners) {
    const Key key(saved.nodeid, saved.kernel_owner);
    auto owner = std::make_shared<LockOwner>(std::move(saved));
    owner->users = 0;
    owner->ended = false;
    if (!by_name_.emplace(owner->name, owner.get()).second) return false;
    for (uint64_t handle : owner->handles) by_handle_[handle].insert(key);
    Process& process = processes_[key.second];
    process.number = owner->process;
    ++process.owners;
    Record(*owner);
    if (!owners_.emplace(key, std::move(owner)).second) return false;
  }
  return true;
}

}  // namespace dafs::fuse
