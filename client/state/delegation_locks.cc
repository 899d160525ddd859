// Locks of local opens, which need no request (client/state/delegations.h).
#include <optional>
#include <utility>

#include "client/state/client.h"
#include "client/state/delegations.h"

namespace dafs::client {

using Type = wire::OpenDelegationType;
using wire::LockRange;

// Whether other clients cannot hold or take locks that conflict with those under the delegation.
bool Delegations::KeepsLocks(const Delegation& delegation) const {
  return delegation.settled && delegation.only_clients && !delegation.ended &&
         IsTrusted(delegation);
}

std::optional<wire::StateId> Delegations::OpenForOwner(const wire::StateId& open, OpenInfo info) {
  absl::MutexLock lock(&mutex_);
  const auto it = locals_.find(open);
  if (it == locals_.end() || becoming_real_.contains(open)) return std::nullopt;
  const DelegationPtr delegation = it->second;
  if (!KeepsLocks(*delegation) || delegation->stopped ||
      (info.share_access & ~delegation->access) != 0) {
    return std::nullopt;
  }
  return AddLocal(delegation, std::move(info));
}

// A lock for reading needs an open for reading, a lock for writing an open for writing. flock(2)
// needs neither. But a delegation is for writing only while the file is open for writing here, so
// such an open must hold the lock.
std::optional<LockAnswer> Delegations::Lock(const LockOwner& owner, const LockRange& range,
                                            const Locks::Wait* wait) {
  absl::MutexLock lock(&mutex_);
  const auto it = locals_.find(owner.state_id);
  if (it == locals_.end() || becoming_real_.contains(owner.state_id)) return std::nullopt;
  const DelegationPtr& delegation = it->second;
  const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(owner.state_id);
  const uint32_t needed = range.write ? wire::kShareWrite : range.is_flock() ? 0 : wire::kShareRead;
  if (!KeepsLocks(*delegation) || info == nullptr || (needed & ~info->share_access) != 0 ||
      (range.write && delegation->type != Type::kWrite)) {
    return std::nullopt;
  }
  LockAnswer answer;
  answer.is_local = answer.by_client = true;
  switch (client_.locks().GrantLocally(owner, range, wait, &answer.before)) {
    case Locks::Local::kAtServer:
      return std::nullopt;
    case Locks::Local::kDenied:
      answer.outcome = LockOutcome::kDenied;
      // flock(2) releases a lock of the other type: here, before its open can become real.
      if (range.is_flock()) client_.locks().Released(owner, range.first, range.last);
      return answer;
    case Locks::Local::kGranted:
      break;
  }
  ++counts_.local_locks;
  delegation->was_locked = true;
  if (delegation->type == Type::kRead) read_locked_.insert(delegation);
  return answer;
}

// A lock that is released here before the open becomes one at the server is not requested there.
Delegations::Unlocking Delegations::Unlock(const LockOwner& owner, uint64_t first, uint64_t last) {
  absl::MutexLock lock(&mutex_);
  if (becoming_real_.contains(owner.state_id)) return Unlocking::kBusy;
  if (!locals_.contains(owner.state_id)) return Unlocking::kAtServer;
  client_.locks().Released(owner, first, last);
  return Unlocking::kDone;
}

std::optional<std::optional<LockConflict>> Delegations::TestLock(const wire::FileHandle& file,
                                                                 std::string_view owner,
                                                                 const LockRange& range) const {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation = Find(file);
  const bool keeps = delegation != nullptr && KeepsLocks(*delegation);
  for (const auto& [open, held] : client_.locks().ConflictsWith(file, range)) {
    const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(open);
    if (info == nullptr || info->owner == owner) continue;
    // During a recall the server does not know the locks of local opens yet.
    if (!keeps && !locals_.contains(open)) continue;
    return LockConflict{.ours = true, .owner = info->owner, .range = held};
  }
  if (!keeps) return std::nullopt;
  const bool excludes = delegation->type == Type::kWrite || !range.write;
  if (!excludes || client_.locks().IsAtServer(file)) return std::nullopt;
  return std::optional<LockConflict>();
}

bool Delegations::WasLocked(const Delegation& delegation) const {
  absl::MutexLock lock(&mutex_);
  return delegation.was_locked;
}

bool Delegations::HasReadLocks() {
  absl::MutexLock lock(&mutex_);
  absl::erase_if(read_locked_, [this](const DelegationPtr& delegation) {
    return client_.locks().LocalOpens(delegation->file).empty();
  });
  return !read_locked_.empty();
}

Delegations::MakingReal Delegations::BeginMakingReal(const wire::StateId& open) {
  absl::MutexLock lock(&mutex_);
  const auto it = locals_.find(open);
  if (becoming_real_.contains(open)) return {.lender = nullptr, .is_busy = true};
  if (it == locals_.end()) return {};
  becoming_real_.insert(open);
  return {.lender = it->second};
}

void Delegations::EndMakingReal(const wire::StateId& open) {
  absl::MutexLock lock(&mutex_);
  becoming_real_.erase(open);
}

}  // namespace dafs::client
