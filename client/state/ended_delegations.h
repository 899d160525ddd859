// Delegations that have ended and are not returned yet. Those that are due still need a caller to
// return them. Spec: 6.5.11; WIRE 9.7.
// Not thread-safe: DelegationTable guards it. Nothing blocks.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/state/delegation.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class EndedDelegations {
 public:
  // Adds one whose caller returns it, unless it is here.
  void Add(const DelegationPtr& delegation);
  // Hands one that was added to the next TakeDue. Once for each.
  void MakeDue(const DelegationPtr& delegation) { due_.push_back(delegation); }
  // Those that are due, each once.
  std::vector<DelegationPtr> TakeDue();
  bool any_due() const { return !due_.empty(); }
  // It was returned, or was never to be.
  void Remove(const DelegationPtr& delegation);

  // Null: there is none.
  DelegationPtr Find(const wire::StateId& state_id) const;
  // Whether there are any of the file.
  bool HasAnyOf(const wire::FileHandle& file) const { return files_.contains(file); }
  template <class F>
  void ForEach(F&& visit) const {
    for (const auto& [state_id, delegation] : by_state_id_) visit(*delegation);
  }

 private:
  absl::flat_hash_map<wire::StateId, DelegationPtr> by_state_id_;
  absl::flat_hash_map<wire::FileHandle, size_t> files_;  // how many of each file that has any
  std::vector<DelegationPtr> due_;
};

}  // namespace dafs::client
