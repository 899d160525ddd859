#include "client/state/ended_delegations.h"

#include <utility>

namespace dafs::client {

void EndedDelegations::Add(const DelegationPtr& delegation) {
  if (by_state_id_.emplace(delegation->state_id, delegation).second) ++files_[delegation->file];
}

void EndedDelegations::Remove(const DelegationPtr& delegation) {
  const auto it = by_state_id_.find(delegation->state_id);
  if (it == by_state_id_.end() || it->second != delegation) return;
  by_state_id_.erase(it);
  const auto files = files_.find(delegation->file);
  if (--files->second == 0) files_.erase(files);
}

std::vector<DelegationPtr> EndedDelegations::TakeDue() { return std::exchange(due_, {}); }

DelegationPtr EndedDelegations::Find(const wire::StateId& state_id) const {
  const auto it = by_state_id_.find(state_id);
  return it != by_state_id_.end() ? it->second : nullptr;
}

}  // namespace dafs::client
