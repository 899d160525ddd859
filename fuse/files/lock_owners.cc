#include "fuse/files/lock_owners.h"

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
  if (owner->handles.insert(handle).second) by_handle_[handle].insert(key);
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

}  // namespace dafs::fuse
