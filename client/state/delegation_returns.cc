#include "client/state/delegation_returns.h"

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"

namespace dafs::client {

wire::DafsStatus DelegationReturns::Recall(const wire::FileHandle& file,
                                           const wire::StateId& state_id) {
  absl::MutexLock lock(&table_.mutex());
  const DelegationPtr delegation = table_.Find(file);
  if (delegation != nullptr && delegation->state_id == state_id) {
    ++table_.counts().recalls;
    delegation->recalled_at = Loop::Now();
    table_.MakeDue(delegation);
    return wire::DafsStatus::kOk;
  }
  const DelegationPtr returning = table_.ended().Find(state_id);
  if (returning != nullptr && returning->file == file) return wire::DafsStatus::kOk;
  table_.Doom(file);  // the answer that grants it is on its way
  const bool has_none = delegation == nullptr && !table_.ended().HasAnyOf(file);
  return has_none ? wire::DafsStatus::kBadHandle : wire::DafsStatus::kBadStateId;
}

void DelegationReturns::EndAll() {
  absl::MutexLock lock(&table_.mutex());
  table_.MakeAllDue();
}

std::vector<DelegationPtr> DelegationReturns::TakeDue() {
  absl::MutexLock lock(&table_.mutex());
  return table_.ended().TakeDue();
}

bool DelegationReturns::any_due() const {
  absl::MutexLock lock(&table_.mutex());
  return table_.ended().any_due();
}

std::vector<wire::StateId> DelegationReturns::LocalsOf(const Delegation& delegation) const {
  absl::MutexLock lock(&table_.mutex());
  return {delegation.locals.begin(), delegation.locals.end()};
}

void DelegationReturns::Returned(const DelegationPtr& delegation) {
  absl::MutexLock lock(&table_.mutex());
  table_.ForgetLocals(delegation);
  table_.DropRecord(*delegation);
  table_.read_locked().erase(delegation);
  table_.ended().Remove(delegation);
  if (delegation->recalled_at != absl::InfiniteFuture()) {
    table_.counts().returns.Add(Loop::Now() - delegation->recalled_at);
    delegation->recalled_at = absl::InfiniteFuture();
  }
}

bool DelegationReturns::WasWrite(const Delegation& delegation) const {
  absl::MutexLock lock(&table_.mutex());
  return delegation.was_write;
}

bool DelegationReturns::WasLocked(const Delegation& delegation) const {
  absl::MutexLock lock(&table_.mutex());
  return delegation.was_locked;
}

}  // namespace dafs::client
