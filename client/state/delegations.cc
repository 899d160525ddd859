#include "client/state/delegations.h"

#include <sys/stat.h>

#include <memory>
#include <utility>

#include "wire/protocol/constants.h"

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

// ---- Opens -----------------------------------------------------------------------------------

std::optional<Delegations::LocalOpen> Delegations::Open(const OpenInfo& info, bool exact) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.Find(info.handle);
  if (delegation == nullptr || !delegation->settled || delegation->stopped ||
      delegation->upgrading || !Covers(delegation->access, info.share_access) || info.Reserves() ||
      (exact && !delegation->only_clients) || !(delegation->user == info.user) ||
      !table_.IsTrusted(*delegation)) {
    return std::nullopt;
  }
  ++table_.counts().local_opens;
  LocalOpen local{.open = table_.AddLocal(delegation, info),
                  .delegation = delegation->number,
                  .only_clients = delegation->only_clients,
                  .owner = delegation->owner};
  return local;
}

Delegations::Plan Delegations::PlanOpen(const wire::FileHandle& file, const Identity& user,
                                        uint32_t share_access) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.Find(file);
  // A write delegation in its place would end one that is being returned, before the opens under
  // that are opens at the server.
  if (delegation == nullptr) return {.delegated = !table_.ended().HasAnyOf(file)};
  const bool busy = delegation->upgrading || delegation->downgrading;
  if (busy || !delegation->locals.empty()) return {};
  if (delegation->stopped || !table_.IsTrusted(*delegation)) {
    table_.End(delegation);
    return {.delegated = true, .give_back = delegation};
  }
  if (delegation->type != Type::kRead || !Writes(share_access) || !(delegation->user == user)) {
    return {};
  }
  delegation->upgrading = true;
  return {.delegated = true, .upgraded = delegation};
}

void Delegations::Upgraded(const DelegationPtr& delegation, Outcome outcome) {
  absl::MutexLock lock(&table_.mutex());
  delegation->upgrading = false;
  if (delegation->ended || outcome == Outcome::kKept || outcome == Outcome::kWrite) return;
  if (outcome == Outcome::kUnknown) return table_.MakeDue(delegation);
  table_.End(delegation);
  table_.ForgetLocals(delegation);
  table_.ended().Remove(delegation);
  table_.DropRecord(*delegation);
}

void Delegations::Restore(Saved saved) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation =
      table_.Make(saved.file, saved.state_id, saved.client_id, std::move(saved.user), /*asked=*/0);
  delegation->was_write = saved.was_write;
  delegation->was_locked = true;  // perhaps
  for (const wire::StateId& open : saved.opens) {
    const std::shared_ptr<const OpenInfo> info = table_.opens().InfoOf(open);
    if (info != nullptr) table_.RestoreLocal(delegation, open, *info);
  }
  table_.Record(*delegation);
  table_.MakeDue(delegation);
}

wire::StateId Delegations::Granted(OpenInfo info, const wire::OpenDelegation& granted,
                                   const wire::ClientId& client_id, uint64_t asked) {
  absl::MutexLock lock(&table_.mutex());
  const wire::FileHandle file = info.handle;
  DelegationPtr delegation = table_.Find(file);
  if (delegation != nullptr && !(delegation->state_id == granted.delegation_state_id)) {
    table_.MakeDue(delegation);
    delegation = nullptr;
  }
  if (delegation == nullptr) delegation = table_.ended().Find(granted.delegation_state_id);
  const bool is_doomed = table_.IsDoomed(file, asked);
  bool is_new = false;
  if (delegation == nullptr) {
    delegation = table_.Make(file, granted.delegation_state_id, client_id, info.user, asked);
    table_.Add(delegation);
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
  if (is_new || writes_first) table_.Record(*delegation);
  const wire::StateId open = table_.AddLocal(delegation, std::move(info));
  if (is_doomed || doubtful || granted.recall || !table_.IsTrusted(*delegation)) {
    table_.MakeDue(delegation);
  }
  return open;
}

uint64_t Delegations::Settle(const wire::StateId& open, bool only_clients, std::string owner) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.LenderOf(open);
  if (delegation == nullptr) return 0;
  delegation->settled = true;
  delegation->only_clients = only_clients;
  delegation->owner = std::move(owner);
  return delegation->number;
}

void Delegations::Doubt(const wire::FileHandle& file) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.Find(file);
  if (delegation != nullptr && delegation->type == Type::kRead) table_.MakeDue(delegation);
}

Delegations::Closing Delegations::Close(const wire::StateId& open) {
  using What = Closing::What;
  absl::MutexLock lock(&table_.mutex());
  DelegationPtr delegation = table_.LenderOf(open);
  if (delegation == nullptr) return {};
  if (delegation->was_locked) {
    const wire::FileHandle& file = delegation->file;
    table_.locks().Wake(file, table_.locks().Forget(file, open));
  }
  table_.RemoveLocal(open);
  table_.opens().Remove(open);
  if (delegation->ended) return {.what = What::kDone};
  const bool unused = delegation->locals.empty();
  const bool barring = delegation->type == Type::kWrite && delegation->writers == 0;
  const bool may_read = (delegation->access & wire::kShareRead) != 0;
  if (unused && (delegation->stopped || (barring && !may_read) || !table_.IsTrusted(*delegation))) {
    table_.End(delegation);
    return {.what = What::kReturn, .delegation = std::move(delegation)};
  }
  if (unused) table_.Idle(delegation);
  if (!barring) return {.what = What::kDone};
  delegation->type = Type::kRead;
  delegation->access = wire::kShareRead;
  delegation->downgrading = true;
  if (delegation->was_locked) table_.read_locked().insert(delegation);
  return {.what = What::kDowngrade, .delegation = std::move(delegation)};
}

void Delegations::Downgraded(const DelegationPtr& delegation, bool ok) {
  absl::MutexLock lock(&table_.mutex());
  delegation->downgrading = false;
  if (!ok) table_.MakeDue(delegation);
}

DelegationPtr Delegations::LenderOf(const wire::StateId& open) const {
  absl::MutexLock lock(&table_.mutex());
  return table_.LenderOf(open);
}

bool Delegations::MadeReal(const wire::StateId& open, const wire::StateId& state_id,
                           const wire::ClientId& client_id) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.RemoveLocal(open);
  if (delegation != nullptr && !delegation->ended && delegation->locals.empty()) {
    table_.Idle(delegation);
  }
  return table_.opens().Reclaimed(open, state_id, client_id);
}

void Delegations::Forgotten(const DelegationPtr& delegation, const wire::StateId& open) {
  absl::MutexLock lock(&table_.mutex());
  if (table_.RemoveLocal(open) != nullptr) table_.opens().Forgotten(open, delegation->state_id);
}

void Delegations::Lost(const wire::StateId& open, const wire::StateId& state_id) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.LenderOf(open);
  if (delegation != nullptr && delegation->state_id == state_id) table_.MakeDue(delegation);
}

// ---- The end of delegations ------------------------------------------------------------------

void Delegations::StopLocalOpens(const wire::FileHandle& file) {
  absl::MutexLock lock(&table_.mutex());
  table_.Doom(file);
  if (const DelegationPtr delegation = table_.Find(file)) delegation->stopped = true;
}

void Delegations::RightsChange(const wire::FileHandle& file, const Identity& user,
                               std::optional<uint32_t> mode, const std::string* owner) {
  absl::MutexLock lock(&table_.mutex());
  table_.Doom(file);
  const DelegationPtr delegation = table_.Find(file);
  if (delegation == nullptr) return;
  const bool permitted = !mode.has_value() || Covers(AccessOfOwner(*mode), delegation->access);
  if (!permitted || !delegation->settled || !(delegation->user == user)) {
    delegation->stopped = true;
  } else if (owner != nullptr) {
    delegation->owner = *owner;
  }
}

void Delegations::LeaseEnds(const wire::FileHandle& file) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.Find(file);
  if (delegation == nullptr || (delegation->settled && delegation->only_clients)) return;
  table_.Doom(file);
  delegation->stopped = true;
}

DelegationPtr Delegations::TakeIdle(const wire::FileHandle& file) {
  absl::MutexLock lock(&table_.mutex());
  DelegationPtr delegation = table_.Find(file);
  if (delegation == nullptr) return nullptr;
  delegation->stopped = true;
  if (!delegation->locals.empty() || delegation->upgrading) return nullptr;
  table_.End(delegation);
  return delegation;
}

void Delegations::Drop(const wire::FileHandle& file) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.Find(file);
  if (delegation == nullptr) return;
  delegation->stopped = true;
  if (delegation->locals.empty() && !delegation->upgrading) table_.MakeDue(delegation);
}

bool Delegations::Protects(const wire::FileHandle& file) const {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.Find(file);
  return delegation != nullptr && !delegation->stopped && table_.IsTrusted(*delegation);
}

bool Delegations::HoldsWrite(const wire::FileHandle& file) const {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.Find(file);
  return delegation != nullptr && delegation->type == Type::kWrite;
}

Delegations::Counts Delegations::counts() const {
  absl::MutexLock lock(&table_.mutex());
  return table_.CountsNow();
}

}  // namespace dafs::client
