// Returns delegations, and opens at the server what is open locally (client/state/delegations.h).
// Spec: 6.5.11, 6.5.26, 6.6.4; WIRE 9.5 OPEN_OWNER, 9.7.
// Threads and blocking: client/files/files.h.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/files/shared/operations.h"
#include "client/state/delegations.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class DelegationOperations : public OperationGroup {
 public:
  explicit DelegationOperations(const OperationContext& context) : OperationGroup(context) {}

  // Whether opens may ask for delegations now: the client wants them, the server knows
  // kExtensionOpenXorDelegation, and it can recall them.
  bool Wanted() const;
  // Starts to return those that are due, and returns at once. Errors are ignored: a delegation that
  // cannot be returned is revoked by the server.
  void ReturnDue();
  // The same, but only once the server has answered this worker: at once if it did so in the last
  // second, otherwise after a NULL. If several workers are called, the first one whose server
  // answers returns them.
  void ReturnDueIfAnswered();
  // Whether something is being returned.
  bool returning() const { return returning_ != 0; }
  // Makes a local open a real one: opens the file at the server, as LOCK and OPEN_DOWNGRADE
  // require, with its locks. The open then has a state id of the server of its own, not the
  // delegation's. Does nothing if the open is not local. Waits if another worker does it. kAborted:
  // the server does not know the delegation.
  Task<absl::Status> MakeReal(const wire::StateId& open);
  // Turns a delegation into a read delegation, or returns it if the server does not. `can_wait`: as
  // in Close.
  Task<void> Downgrade(DelegationPtr delegation, bool can_wait);
  // Returns one that Delegations has given to the caller, without local opens.
  Task<void> Return(DelegationPtr delegation, bool can_wait);
  // RequestExecutor::RunAll of `chain`, with a DELEGRETURN before it. `given` may be null. The
  // chain runs also if the server does not know the delegation.
  Task<absl::Status> RunReturning(DelegationPtr given, const Identity* user,
                                  std::span<CallBase* const> chain, std::string_view what,
                                  size_t extra = 0);

 private:
  struct ServerOpen {
    wire::StateId state_id;
    wire::ClientId client_id;
    bool is_refused = false;  // the server does not know the delegation, or it permits less
  };
  Task<absl::Status> Convert(DelegationPtr delegation, wire::StateId open);
  Task<absl::Status> OpenWithLocks(const Delegation& delegation, const OpenInfo& info,
                                   const std::vector<wire::LockRange>& locks, ServerOpen* opened);
  Task<void> CommitIfLocked(DelegationPtr delegation);
  Task<void> CloseUnused(DelegationPtr delegation, wire::StateId state_id);
  Task<void> ReturnInUse(DelegationPtr delegation);
  Task<void> ReturnUnused();
  bool IsOfServer(const Delegation& delegation) const;
  Task<void> ReturnTogether(std::vector<DelegationPtr> delegations);

  Task<void> ReturnDueAfterNull();

  std::vector<DelegationPtr> unused_;  // to be returned by ReturnUnused
  size_t runners_ = 0;                 // of ReturnUnused
  size_t returning_ = 0;
  bool asking_ = false;  // ReturnDueAfterNull runs
};

}  // namespace dafs::client
