#include "client/state/delegation_locks.h"

#include <memory>
#include <optional>
#include <utility>

#include "wire/protocol/constants.h"

namespace dafs::client {

using Type = wire::OpenDelegationType;
using wire::LockRange;

// Whether other clients cannot hold or take locks that conflict with those under the delegation.
bool DelegationLocks::KeepsLocks(const Delegation& delegation) const {
  return delegation.settled && delegation.only_clients && !delegation.ended &&
         table_.IsTrusted(delegation);
}

std::optional<wire::StateId> DelegationLocks::OpenForOwner(const wire::StateId& open,
                                                           OpenInfo info) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.LenderOf(open);
  if (delegation == nullptr || becoming_real_.contains(open)) return std::nullopt;
  if (!KeepsLocks(*delegation) || delegation->stopped ||
      (info.share_access & ~delegation->access) != 0) {
    return std::nullopt;
  }
  return table_.AddLocal(delegation, std::move(info));
}

// A lock for reading needs an open for reading, a lock for writing an open for writing. flock(2)
// needs neither. But a delegation is for writing only while the file is open for writing here, so
// such an open must hold the lock.
std::optional<LockAnswer> DelegationLocks::Lock(const LockOwner& owner, const LockRange& range,
                                                const Locks::Wait* wait) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.LenderOf(owner.state_id);
  if (delegation == nullptr || becoming_real_.contains(owner.state_id)) return std::nullopt;
  const std::shared_ptr<const OpenInfo> info = table_.opens().InfoOf(owner.state_id);
  const uint32_t needed = range.write ? wire::kShareWrite : range.is_flock() ? 0 : wire::kShareRead;
  if (!KeepsLocks(*delegation) || info == nullptr || (needed & ~info->share_access) != 0 ||
      (range.write && delegation->type != Type::kWrite)) {
    return std::nullopt;
  }
  LockAnswer answer;
  answer.is_local = answer.by_client = true;
  switch (table_.locks().GrantLocally(owner, range, wait, &answer.before)) {
    case Locks::Local::kAtServer:
      return std::nullopt;
    case Locks::Local::kDenied:
      answer.outcome = LockOutcome::kDenied;
      // flock(2) releases a lock of the other type: here, before its open can become real.
      if (range.is_flock()) table_.locks().Released(owner, range.first, range.last);
      return answer;
    case Locks::Local::kGranted:
      break;
  }
  ++table_.counts().local_locks;
  delegation->was_locked = true;
  if (delegation->type == Type::kRead) table_.read_locked().insert(delegation);
  return answer;
}

// A lock that is released here before the open becomes one at the server is not requested there.
DelegationLocks::Unlocking DelegationLocks::Unlock(const LockOwner& owner, uint64_t first,
                                                   uint64_t last) {
  absl::MutexLock lock(&table_.mutex());
  if (becoming_real_.contains(owner.state_id)) return Unlocking::kBusy;
  if (!table_.IsLocal(owner.state_id)) return Unlocking::kAtServer;
  table_.locks().Released(owner, first, last);
  return Unlocking::kDone;
}

std::optional<std::optional<LockConflict>> DelegationLocks::TestLock(const wire::FileHandle& file,
                                                                     std::string_view owner,
                                                                     const LockRange& range) const {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.Find(file);
  const bool keeps = delegation != nullptr && KeepsLocks(*delegation);
  for (const auto& [open, held] : table_.locks().ConflictsWith(file, range)) {
    const std::shared_ptr<const OpenInfo> info = table_.opens().InfoOf(open);
    if (info == nullptr || info->owner == owner) continue;
    // During a recall the server does not know the locks of local opens yet.
    if (!keeps && !table_.IsLocal(open)) continue;
    return LockConflict{.ours = true, .owner = info->owner, .range = held};
  }
  if (!keeps) return std::nullopt;
  const bool excludes = delegation->type == Type::kWrite || !range.write;
  if (!excludes || table_.locks().IsAtServer(file)) return std::nullopt;
  return std::optional<LockConflict>();
}

bool DelegationLocks::HasReadLocks() {
  absl::MutexLock lock(&table_.mutex());
  absl::erase_if(table_.read_locked(), [this](const DelegationPtr& delegation) {
    return table_.locks().LocalOpens(delegation->file).empty();
  });
  return !table_.read_locked().empty();
}

DelegationLocks::MakingReal DelegationLocks::BeginMakingReal(const wire::StateId& open) {
  absl::MutexLock lock(&table_.mutex());
  if (becoming_real_.contains(open)) return {.lender = nullptr, .is_busy = true};
  const DelegationPtr lender = table_.LenderOf(open);
  if (lender == nullptr) return {};
  becoming_real_.insert(open);
  return {.lender = lender};
}

void DelegationLocks::EndMakingReal(const wire::StateId& open) {
  absl::MutexLock lock(&table_.mutex());
  becoming_real_.erase(open);
}

}  // namespace dafs::client
