#include "client/state/delegations.h"

#include <sys/stat.h>

#include <utility>

#include "absl/hash/hash.h"
#include "client/state/client.h"
#include "runtime/loop/loop.h"

namespace dafs::client {

using Type = wire::OpenDelegationType;

namespace {

// ACE4_READ_DATA in the permissions of a delegation.
constexpr uint32_t kMayRead = 1;

bool Covers(uint32_t access, uint32_t wanted) { return (wanted & ~access) == 0; }
uint32_t AccessOfOwner(uint32_t mode) {
  return ((mode & S_IRUSR) != 0 ? wire::kShareRead : 0) |
         ((mode & S_IWUSR) != 0 ? wire::kShareWrite : 0);
}
bool Writes(uint32_t access) { return (access & wire::kShareWrite) != 0; }

}  // namespace

bool Delegations::IsTrusted(const Delegation& delegation) const {
  return client_.promises().Reachable(delegation.asked, client_.last_activity(), Loop::Now());
}

DelegationPtr Delegations::Find(const wire::FileHandle& file) const {
  const auto it = by_file_.find(file);
  return it != by_file_.end() ? it->second : nullptr;
}

// ---- Opens -----------------------------------------------------------------------------------

std::optional<Delegations::LocalOpen> Delegations::Open(const OpenInfo& info, bool exact) {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation = Find(info.handle);
  if (delegation == nullptr || !delegation->settled || delegation->stopped ||
      delegation->upgrading || !Covers(delegation->access, info.share_access) || info.Reserves() ||
      (exact && !delegation->only_clients) || !(delegation->user == info.user) ||
      !IsTrusted(*delegation)) {
    return std::nullopt;
  }
  ++counts_.local_opens;
  LocalOpen local{.open = AddLocal(delegation, info),
                  .delegation = delegation->number,
                  .only_clients = delegation->only_clients,
                  .owner = delegation->owner};
  return local;
}

wire::StateId Delegations::AddLocal(const DelegationPtr& delegation, OpenInfo info) {
  NotIdle(*delegation);
  const bool writes = Writes(info.share_access);
  const wire::StateId open =
      client_.opens().AddLocal(std::move(info), delegation->state_id, delegation->client_id);
  delegation->locals.insert(open);
  if (writes) ++delegation->writers;
  locals_[open] = delegation;
  return open;
}

Delegations::Plan Delegations::PlanOpen(const wire::FileHandle& file, const Identity& user,
                                        uint32_t share_access) {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation = Find(file);
  // A write delegation in its place would end one that is being returned, before the opens under
  // that are opens at the server.
  if (delegation == nullptr) return {.delegated = !returning_files_.contains(file)};
  const bool busy = delegation->upgrading || delegation->downgrading;
  if (busy || !delegation->locals.empty()) return {};
  if (delegation->stopped || !IsTrusted(*delegation)) {
    End(delegation);
    return {.delegated = true, .give_back = delegation};
  }
  if (delegation->type != Type::kRead || !Writes(share_access) || !(delegation->user == user)) {
    return {};
  }
  delegation->upgrading = true;
  return {.delegated = true, .upgraded = delegation};
}

void Delegations::Upgraded(const DelegationPtr& delegation, Outcome outcome) {
  absl::MutexLock lock(&mutex_);
  delegation->upgrading = false;
  if (delegation->ended || outcome == Outcome::kKept || outcome == Outcome::kWrite) return;
  if (outcome == Outcome::kUnknown) return MakeDue(delegation);
  End(delegation);
  ForgetLocals(delegation);
  DropReturning(delegation);
  DropRecord(*delegation);
}

void Delegations::Record(Delegation& delegation) {
  if (recorder_ == nullptr) return;
  delegation.slot = recorder_->PutDelegation({.number = delegation.number,
                                              .file = delegation.file,
                                              .state_id = delegation.state_id,
                                              .client_id = delegation.client_id,
                                              .user = delegation.user,
                                              .was_write = delegation.was_write},
                                             delegation.slot);
}

void Delegations::DropRecord(Delegation& delegation) {
  if (recorder_ != nullptr) recorder_->Drop(std::exchange(delegation.slot, 0));
}

void Delegations::Restore(Saved saved) {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation(new Delegation(++last_number_, saved.file, saved.state_id,
                                                saved.client_id, std::move(saved.user), 0));
  delegation->was_write = saved.was_write;
  delegation->was_locked = true;  // perhaps
  for (const wire::StateId& open : saved.opens) {
    const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(open);
    if (info == nullptr) continue;
    delegation->locals.insert(open);
    if (Writes(info->share_access)) ++delegation->writers;
    locals_[open] = delegation;
  }
  Record(*delegation);
  MakeDue(delegation);
}

wire::StateId Delegations::Granted(OpenInfo info, const wire::OpenDelegation& granted,
                                   const wire::ClientId& client_id, uint64_t asked) {
  absl::MutexLock lock(&mutex_);
  const wire::FileHandle file = info.handle;
  DelegationPtr delegation = Find(file);
  if (delegation != nullptr && !(delegation->state_id == granted.delegation_state_id)) {
    MakeDue(delegation);
    delegation = nullptr;
  }
  if (delegation == nullptr) {
    const auto it = returning_.find(granted.delegation_state_id);
    if (it != returning_.end()) delegation = it->second;
  }
  const bool good = asked >= not_before_[absl::HashOf(file) % not_before_.size()];
  bool is_new = false;
  if (delegation == nullptr) {
    delegation.reset(new Delegation(++last_number_, file, granted.delegation_state_id, client_id,
                                    info.user, asked));
    by_file_[file] = delegation;
    is_new = true;
  }
  // An OPEN by name may get the delegation of another user, whose local opens must not use what it
  // permits now.
  const bool doubtful = delegation->downgrading || !(delegation->user == info.user);
  delegation->type = granted.delegation_type;
  delegation->access = wire::kShareRead;
  const bool writes_first = delegation->type == Type::kWrite && !delegation->was_write;
  if (delegation->type == Type::kWrite) {
    delegation->was_write = true;
    delegation->access = wire::kShareWrite;
    if ((granted.permissions_acemask & kMayRead) != 0) delegation->access |= wire::kShareRead;
  }
  if (is_new || writes_first) Record(*delegation);
  const wire::StateId open = AddLocal(delegation, std::move(info));
  if (!good || doubtful || granted.recall || !IsTrusted(*delegation)) MakeDue(delegation);
  return open;
}

uint64_t Delegations::Settle(const wire::StateId& open, bool only_clients, std::string owner) {
  absl::MutexLock lock(&mutex_);
  const auto it = locals_.find(open);
  if (it == locals_.end()) return 0;
  Delegation& delegation = *it->second;
  delegation.settled = true;
  delegation.only_clients = only_clients;
  delegation.owner = std::move(owner);
  return delegation.number;
}

void Delegations::Doubt(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation = Find(file);
  if (delegation != nullptr && delegation->type == Type::kRead) MakeDue(delegation);
}

bool Delegations::RemoveLocal(const wire::StateId& open, DelegationPtr* delegation) {
  const auto it = locals_.find(open);
  if (it == locals_.end()) return false;
  *delegation = std::move(it->second);
  locals_.erase(it);
  (*delegation)->locals.erase(open);
  const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(open);
  if (info != nullptr && Writes(info->share_access)) --(*delegation)->writers;
  if ((*delegation)->was_locked) client_.locks().MadeReal((*delegation)->file, open);
  return true;
}

Delegations::Closing Delegations::Close(const wire::StateId& open) {
  using What = Closing::What;
  absl::MutexLock lock(&mutex_);
  if (const auto it = locals_.find(open); it != locals_.end() && it->second->was_locked) {
    const wire::FileHandle& file = it->second->file;
    client_.locks().Wake(file, client_.locks().Forget(file, open));
  }
  DelegationPtr delegation;
  if (!RemoveLocal(open, &delegation)) return {};
  client_.opens().Remove(open);
  if (delegation->ended) return {.what = What::kDone};
  const bool unused = delegation->locals.empty();
  const bool barring = delegation->type == Type::kWrite && delegation->writers == 0;
  const bool may_read = (delegation->access & wire::kShareRead) != 0;
  if (unused && (delegation->stopped || (barring && !may_read) || !IsTrusted(*delegation))) {
    End(delegation);
    return {.what = What::kReturn, .delegation = std::move(delegation)};
  }
  if (unused) Idle(delegation);
  if (!barring) return {.what = What::kDone};
  delegation->type = Type::kRead;
  delegation->access = wire::kShareRead;
  delegation->downgrading = true;
  if (delegation->was_locked) read_locked_.insert(delegation);
  return {.what = What::kDowngrade, .delegation = std::move(delegation)};
}

void Delegations::Downgraded(const DelegationPtr& delegation, bool ok) {
  absl::MutexLock lock(&mutex_);
  delegation->downgrading = false;
  if (!ok) MakeDue(delegation);
}

DelegationPtr Delegations::LenderOf(const wire::StateId& open) const {
  absl::MutexLock lock(&mutex_);
  const auto it = locals_.find(open);
  return it != locals_.end() ? it->second : nullptr;
}

bool Delegations::MadeReal(const wire::StateId& open, const wire::StateId& state_id,
                           const wire::ClientId& client_id) {
  absl::MutexLock lock(&mutex_);
  DelegationPtr delegation;
  if (RemoveLocal(open, &delegation) && !delegation->ended && delegation->locals.empty()) {
    Idle(delegation);
  }
  return client_.opens().Reclaimed(open, state_id, client_id);
}

void Delegations::Forgotten(const DelegationPtr& delegation, const wire::StateId& open) {
  absl::MutexLock lock(&mutex_);
  DelegationPtr lender;
  if (RemoveLocal(open, &lender)) client_.opens().Forgotten(open, delegation->state_id);
}

void Delegations::Lost(const wire::StateId& open, const wire::StateId& state_id) {
  absl::MutexLock lock(&mutex_);
  const auto it = locals_.find(open);
  if (it != locals_.end() && it->second->state_id == state_id) MakeDue(it->second);
}

bool Delegations::WasWrite(const Delegation& delegation) const {
  absl::MutexLock lock(&mutex_);
  return delegation.was_write;
}

// ---- The end of delegations ------------------------------------------------------------------

void Delegations::NotIdle(Delegation& delegation) {
  if (!delegation.idle.has_value()) return;
  idle_.erase(*delegation.idle);
  delegation.idle.reset();
}

void Delegations::Idle(const DelegationPtr& delegation) {
  NotIdle(*delegation);
  delegation->idle = idle_.insert(idle_.end(), delegation);
  if (idle_.size() <= kMostIdle) return;
  for (size_t i = 0; i < kAtOnce; ++i) {
    const DelegationPtr oldest = idle_.front();
    MakeDue(oldest);
  }
}

void Delegations::Doom(const wire::FileHandle& file) {
  not_before_[absl::HashOf(file) % not_before_.size()] = client_.promises().Advance();
}

// A response that has not arrived yet may grant it again.
void Delegations::End(const DelegationPtr& delegation) {
  if (std::exchange(delegation->ended, true)) return;
  NotIdle(*delegation);
  const auto it = by_file_.find(delegation->file);
  if (it != by_file_.end() && it->second == delegation) by_file_.erase(it);
  if (returning_.emplace(delegation->state_id, delegation).second) {
    ++returning_files_[delegation->file];
  }
  Doom(delegation->file);
}

void Delegations::DropReturning(const DelegationPtr& delegation) {
  const auto it = returning_.find(delegation->state_id);
  if (it == returning_.end() || it->second != delegation) return;
  returning_.erase(it);
  const auto files = returning_files_.find(delegation->file);
  if (--files->second == 0) returning_files_.erase(files);
}

void Delegations::MakeDue(const DelegationPtr& delegation) {
  if (delegation->ended) return;
  End(delegation);
  due_.push_back(delegation);
}

void Delegations::StopLocalOpens(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  Doom(file);
  if (const DelegationPtr delegation = Find(file)) delegation->stopped = true;
}

void Delegations::RightsChange(const wire::FileHandle& file, const Identity& user,
                               std::optional<uint32_t> mode, const std::string* owner) {
  absl::MutexLock lock(&mutex_);
  Doom(file);
  const DelegationPtr delegation = Find(file);
  if (delegation == nullptr) return;
  const bool permitted = !mode.has_value() || Covers(AccessOfOwner(*mode), delegation->access);
  if (!permitted || !delegation->settled || !(delegation->user == user)) {
    delegation->stopped = true;
  } else if (owner != nullptr) {
    delegation->owner = *owner;
  }
}

void Delegations::LeaseEnds(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation = Find(file);
  if (delegation == nullptr || (delegation->settled && delegation->only_clients)) return;
  Doom(file);
  delegation->stopped = true;
}

DelegationPtr Delegations::TakeIdle(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  DelegationPtr delegation = Find(file);
  if (delegation == nullptr) return nullptr;
  delegation->stopped = true;
  if (!delegation->locals.empty() || delegation->upgrading) return nullptr;
  End(delegation);
  return delegation;
}

void Delegations::Drop(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation = Find(file);
  if (delegation == nullptr) return;
  delegation->stopped = true;
  if (delegation->locals.empty() && !delegation->upgrading) MakeDue(delegation);
}

wire::DafsStatus Delegations::Recall(const wire::FileHandle& file, const wire::StateId& state_id) {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation = Find(file);
  if (delegation != nullptr && delegation->state_id == state_id) {
    ++counts_.recalls;
    delegation->recalled_at = Loop::Now();
    MakeDue(delegation);
    return wire::DafsStatus::kOk;
  }
  const auto returning = returning_.find(state_id);
  if (returning != returning_.end() && returning->second->file == file) {
    return wire::DafsStatus::kOk;
  }
  Doom(file);  // the answer that grants it is on its way
  const bool has_none = delegation == nullptr && !returning_files_.contains(file);
  return has_none ? wire::DafsStatus::kBadHandle : wire::DafsStatus::kBadStateId;
}

void Delegations::EndAll() {
  absl::MutexLock lock(&mutex_);
  std::vector<DelegationPtr> all;
  all.reserve(by_file_.size());
  for (const auto& [file, delegation] : by_file_) all.push_back(delegation);
  for (const DelegationPtr& delegation : all) MakeDue(delegation);
}

std::vector<DelegationPtr> Delegations::TakeDue() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(due_, {});
}

bool Delegations::any_due() const {
  absl::MutexLock lock(&mutex_);
  return !due_.empty();
}

std::vector<wire::StateId> Delegations::LocalsOf(const Delegation& delegation) const {
  absl::MutexLock lock(&mutex_);
  return {delegation.locals.begin(), delegation.locals.end()};
}

void Delegations::ForgetLocals(const DelegationPtr& delegation) {
  for (const wire::StateId& open : delegation->locals) {
    locals_.erase(open);
    if (delegation->was_locked) client_.locks().MadeReal(delegation->file, open);
    client_.opens().Forgotten(open, delegation->state_id);
  }
  delegation->locals.clear();
  delegation->writers = 0;
}

void Delegations::Returned(const DelegationPtr& delegation) {
  absl::MutexLock lock(&mutex_);
  ForgetLocals(delegation);
  DropRecord(*delegation);
  read_locked_.erase(delegation);
  DropReturning(delegation);
  if (delegation->recalled_at != absl::InfiniteFuture()) {
    counts_.returns.Add(Loop::Now() - delegation->recalled_at);
    delegation->recalled_at = absl::InfiniteFuture();
  }
}

bool Delegations::Protects(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation = Find(file);
  return delegation != nullptr && !delegation->stopped && IsTrusted(*delegation);
}

bool Delegations::HoldsWrite(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  const DelegationPtr delegation = Find(file);
  return delegation != nullptr && delegation->type == Type::kWrite;
}

Delegations::Counts Delegations::counts() const {
  absl::MutexLock lock(&mutex_);
  Counts counts = counts_;
  const auto count = [&counts](const Delegation& delegation) {
    ++(delegation.type == Type::kWrite ? counts.write : counts.read);
  };
  for (const auto& [file, delegation] : by_file_) count(*delegation);
  for (const auto& [state_id, delegation] : returning_) count(*delegation);
  return counts;
}

}  // namespace dafs::client
