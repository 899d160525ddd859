// How the delegations of a client end: they are due when the server recalls them, or when promises
// end. client/files/opens/delegating.h opens at the server what is open locally, and returns them.
// Spec: 6.5.11, 6.6.4; WIRE 9.7.
// Thread-safe: shared by the workers of a client. Nothing blocks. Delegations owns it.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/state/delegation.h"
#include "client/state/delegation_table.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class DelegationReturns {
 public:
  // `table` must outlive this.
  explicit DelegationReturns(DelegationTable& table) : table_(table) {}
  DelegationReturns(const DelegationReturns&) = delete;
  DelegationReturns& operator=(const DelegationReturns&) = delete;

  // BC_RECALL. BADHANDLE: the file has no delegation, not even one that is being returned.
  // BAD_STATEID: the state id is not that of its delegation.
  wire::DafsStatus Recall(const wire::FileHandle& file, const wire::StateId& state_id)
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  // All are due: they cannot be recalled any more, or the mount ends.
  void EndAll() ABSL_LOCKS_EXCLUDED(table_.mutex());

  // Those to be returned, each once. The caller makes its local opens real, returns it, and calls
  // Returned.
  std::vector<DelegationPtr> TakeDue() ABSL_LOCKS_EXCLUDED(table_.mutex());
  bool any_due() const ABSL_LOCKS_EXCLUDED(table_.mutex());
  std::vector<wire::StateId> LocalsOf(const Delegation& delegation) const
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  // It is gone. Forgets what is still open under it.
  void Returned(const DelegationPtr& delegation) ABSL_LOCKS_EXCLUDED(table_.mutex());
  // Whether opens of the delegation at the server may have more access than the local ones.
  bool WasWrite(const Delegation& delegation) const ABSL_LOCKS_EXCLUDED(table_.mutex());
  // Whether locks were held under it: then what was written is committed before its return.
  bool WasLocked(const Delegation& delegation) const ABSL_LOCKS_EXCLUDED(table_.mutex());

 private:
  DelegationTable& table_;
};

}  // namespace dafs::client
