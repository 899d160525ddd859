// The delegations that a client holds, and its local opens: those that it made under a delegation
// without a request. A local open has a name in Opens as any other; its state id is the
// delegation's, until the client has to open the file at the server after all.
//
// A delegation can be used while the server can recall it (Promises::Reachable). It ends here when
// it is recalled, when promises end, when the file loses a name, or when there are too many. Then
// it makes no more local opens, and is due: client/files/opens/delegating.h opens at the server
// what is open locally, and returns it.
//
// This class opens and closes files under delegations, and stops that. locks() has the locks of
// local opens, returns() the end of delegations. All three share one DelegationTable.
//
// Spec: 6.5.10, 6.5.11, 6.5.24, 6.6.3, 6.6.4; WIRE 9.7.
// Thread-safe: shared by the workers of a client. Nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/delegation.h"
#include "client/state/delegation_locks.h"
#include "client/state/delegation_returns.h"
#include "client/state/delegation_table.h"
#include "client/state/locks.h"
#include "client/state/opens.h"
#include "client/state/promises.h"
#include "client/state/records/identity.h"
#include "client/state/records/state_recorder.h"
#include "wire/messages/open_close.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Delegations {
 public:
  using Type = wire::OpenDelegationType;
  using Counts = DelegationTable::Counts;

  // As for DelegationTable.
  Delegations(Opens& opens, Locks& locks, Promises& promises,
              std::function<absl::Time()> last_activity)
      : table_(opens, locks, promises, std::move(last_activity)) {}
  Delegations(const Delegations&) = delete;
  Delegations& operator=(const Delegations&) = delete;

  // Locks under local opens.
  DelegationLocks& locks() { return locks_; }
  // Those that have ended, and how they are returned.
  DelegationReturns& returns() { return returns_; }

  // Records all delegations from now on. Before the first one. `recorder` must outlive this.
  void RecordIn(StateRecorder* recorder) ABSL_LOCKS_EXCLUDED(table_.mutex()) {
    absl::MutexLock lock(&table_.mutex());
    table_.RecordIn(recorder);
  }
  // For a program that continues the client after a crash: a delegation of the killed program, and
  // the opens under it, which are in Opens already. It is due. Before the first request.
  struct Saved {
    wire::FileHandle file;
    wire::StateId state_id;
    wire::ClientId client_id;
    Identity user;
    bool was_write = false;
    std::vector<wire::StateId> opens;
  };
  void Restore(Saved saved) ABSL_LOCKS_EXCLUDED(table_.mutex());

  // --- Opens ---

  struct LocalOpen {
    wire::StateId open;
    uint64_t delegation = 0;    // its number
    bool only_clients = false;  // as in Promise
    std::string owner;          // FATTR_OWNER of the file
  };
  // Opens a file under a delegation. nullopt: none covers the open, so it needs a request.
  // `exact`: only if no program of the server changes names and attributes unannounced.
  std::optional<LocalOpen> Open(const OpenInfo& info, bool exact)
      ABSL_LOCKS_EXCLUDED(table_.mutex());

  // How to request an open of a file from the server, after Open has refused it.
  struct Plan {
    bool delegated = false;             // by OPEN_DELEGATED with kShareWantOpenXorDelegation
    DelegationPtr give_back = nullptr;  // has ended: a DELEGRETURN before, and then Returned
    DelegationPtr upgraded =
        nullptr;  // the request may upgrade it: Upgraded must be called afterwards
  };
  Plan PlanOpen(const wire::FileHandle& file, const Identity& user, uint32_t share_access)
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  enum class Outcome : uint8_t { kKept, kWrite, kEnded, kUnknown };
  void Upgraded(const DelegationPtr& delegation, Outcome outcome)
      ABSL_LOCKS_EXCLUDED(table_.mutex());

  // The server has granted a delegation in place of the open `info`, in answer to a request with
  // this `asked`. Returns the name of the local open.
  wire::StateId Granted(OpenInfo info, const wire::OpenDelegation& granted,
                        const wire::ClientId& client_id, uint64_t asked)
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  // Stores what the open reported that got a delegation. Local opens are possible from now on.
  // Returns the number of the delegation; 0: `open` is not local.
  uint64_t Settle(const wire::StateId& open, bool only_clients, std::string owner)
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  // An OPEN by name for writing, which may upgrade or end a read delegation of this client, was
  // granted none.
  void Doubt(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(table_.mutex());

  struct Closing {
    enum class What : uint8_t {
      kNotLocal,   // a CLOSE is to be sent
      kDone,       // nothing is
      kDowngrade,  // no writer is left: an OPEN_DOWNGRADE, and then Downgraded
      kReturn,     // DELEGRETURN, and then Returned
    };
    What what = What::kNotLocal;
    DelegationPtr delegation = nullptr;  // of kDowngrade and kReturn
  };
  // Closes a local open. No new local opens use what it returns of the delegation.
  Closing Close(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(table_.mutex());
  void Downgraded(const DelegationPtr& delegation, bool ok) ABSL_LOCKS_EXCLUDED(table_.mutex());

  // The delegation of a local open; null: it is not local.
  DelegationPtr LenderOf(const wire::StateId& open) const ABSL_LOCKS_EXCLUDED(table_.mutex());
  // A local open is an open at the server from now on: as Opens::Reclaimed.
  bool MadeReal(const wire::StateId& open, const wire::StateId& state_id,
                const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(table_.mutex());
  // The server does not know the delegation of a local open: its next use reclaims it.
  void Forgotten(const DelegationPtr& delegation, const wire::StateId& open)
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  // A request with the local open failed, because the server does not know `state_id`. If that is
  // the delegation's, it is due.
  void Lost(const wire::StateId& open, const wire::StateId& state_id)
      ABSL_LOCKS_EXCLUDED(table_.mutex());

  // --- The end of delegations ---

  // The rights to open the file are about to change, or have. No local opens from now on, nor by a
  // delegation that was requested before.
  void StopLocalOpens(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(table_.mutex());
  // `user` is about to set mode or owner of the file, or has. Only its owner or a superuser can,
  // and they may open it if the bits of the owner in `mode` permit that. So local opens go on if
  // these are by `user`, and permitted; otherwise as StopLocalOpens. `mode`: that of the file after
  // the change; nullopt: not known yet. `owner`: as of Settle; null: not known yet.
  void RightsChange(const wire::FileHandle& file, const Identity& user,
                    std::optional<uint32_t> mode, const std::string* owner)
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  // A request of this client is about to end the lease of the server's kernel that protects a read
  // delegation of the file from local programs. No local opens until it is returned.
  void LeaseEnds(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(table_.mutex());
  // The file is about to lose a name. Ends its delegation if it has no local opens; the caller
  // returns it before, and calls Returned. Otherwise stops local opens and returns null.
  DelegationPtr TakeIdle(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(table_.mutex());
  // The file is not used any more: its delegation is due when it has no local opens.
  void Drop(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(table_.mutex());
  // Whether a delegation protects the file: no other client, and no program of the server, has
  // changed it since the delegation was granted.
  bool Protects(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(table_.mutex());
  // BC_GETATTR: whether there is a write delegation of the file.
  bool HoldsWrite(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(table_.mutex());

  Counts counts() const ABSL_LOCKS_EXCLUDED(table_.mutex());

 private:
  DelegationTable table_;
  DelegationLocks locks_{table_};
  DelegationReturns returns_{table_};
};

}  // namespace dafs::client
