// The delegations that a client holds, and its local opens: those that it made under a delegation
// without a request. A local open has a name in Opens as any other; its state id is the
// delegation's, until the client has to open the file at the server after all.
//
// A delegation can be used while the server can recall it (Promises::Reachable). It ends here when
// it is recalled, when promises end, when the file loses a name, or when there are too many. Then
// it makes no more local opens, and is due: client/files/opens/delegating.h opens at the server
// what is open locally, and returns it.
//
// Locks of local opens need no request either, if only clients change the export: read locks under
// any delegation, write locks under a write delegation by an open for writing. The table is Locks.
// When the open becomes one at the server, its locks are requested there first.
//
// Spec: 6.5.10, 6.5.11, 6.5.24, 6.6.3, 6.6.4; WIRE 9.7.
// Thread-safe: shared by the workers of a client. Nothing blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/lock_answer.h"
#include "client/state/locks.h"
#include "client/state/opens.h"
#include "client/state/records/identity.h"
#include "client/state/records/state_recorder.h"
#include "runtime/latency.h"
#include "wire/messages/open_close.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Client;
class Delegations;

// One delegation. The table owns it, and the calls that return or change it.
class Delegation {
 public:
  const uint64_t number;  // unique in this client
  const wire::FileHandle file;
  const wire::StateId state_id;    // the server's
  const wire::ClientId client_id;  // under which it is valid
  const Identity user;             // who opened the file
  const uint64_t asked;            // Promises::sequence() before its request was sent

 private:
  friend class Delegations;
  Delegation(uint64_t number_in, const wire::FileHandle& file_in, const wire::StateId& state_id_in,
             const wire::ClientId& client_id_in, Identity who_in, uint64_t asked_in)
      : number(number_in),
        file(file_in),
        state_id(state_id_in),
        client_id(client_id_in),
        user(std::move(who_in)),
        asked(asked_in) {}

  // The mutex of the table guards the rest.
  wire::OpenDelegationType type = wire::OpenDelegationType::kNone;
  uint32_t access = 0;       // of local opens: wire::kShare... bits
  bool was_write = false;    // at some time
  bool was_locked = false;   // locks were held under it
  bool settled = false;      // Settle was called
  bool stopped = false;      // makes no local opens, and ends when it has none
  bool upgrading = false;    // an OPEN is to make it a write delegation
  bool downgrading = false;  // an OPEN_DOWNGRADE is under way
  bool ended = false;        // makes no local opens, and is returned
  StateRecorder::Slot slot = 0;
  absl::Time recalled_at = absl::InfiniteFuture();
  // Of Settle.
  bool only_clients = false;
  std::string owner;
  // The local opens by their names, and how many of them write.
  absl::flat_hash_set<wire::StateId> locals;
  size_t writers = 0;
  std::optional<std::list<std::shared_ptr<Delegation>>::iterator> idle;  // its place in idle_
};
using DelegationPtr = std::shared_ptr<Delegation>;

class Delegations {
 public:
  using Type = wire::OpenDelegationType;
  // Delegations without a local open. Beyond these the oldest are returned, kAtOnce together.
  static constexpr size_t kMostIdle = 8192;
  static constexpr size_t kAtOnce = 8;

  // `client` owns this.
  explicit Delegations(Client& client) : client_(client) {}
  Delegations(const Delegations&) = delete;
  Delegations& operator=(const Delegations&) = delete;

  // Records all delegations from now on. Before the first one. `recorder` must outlive this.
  void RecordIn(StateRecorder* recorder) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    recorder_ = recorder;
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
  void Restore(Saved saved) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Opens ---

  struct LocalOpen {
    wire::StateId open;
    uint64_t delegation = 0;    // its number
    bool only_clients = false;  // as in Promise
    std::string owner;          // FATTR_OWNER of the file
  };
  // Opens a file under a delegation. nullopt: none covers the open, so it needs a request.
  // `exact`: only if no program of the server changes names and attributes unannounced.
  std::optional<LocalOpen> Open(const OpenInfo& info, bool exact) ABSL_LOCKS_EXCLUDED(mutex_);

  // How to request an open of a file from the server, after Open has refused it.
  struct Plan {
    bool delegated = false;             // by OPEN_DELEGATED with kShareWantOpenXorDelegation
    DelegationPtr give_back = nullptr;  // has ended: a DELEGRETURN before, and then Returned
    DelegationPtr upgraded =
        nullptr;  // the request may upgrade it: Upgraded must be called afterwards
  };
  Plan PlanOpen(const wire::FileHandle& file, const Identity& user, uint32_t share_access)
      ABSL_LOCKS_EXCLUDED(mutex_);
  enum class Outcome : uint8_t { kKept, kWrite, kEnded, kUnknown };
  void Upgraded(const DelegationPtr& delegation, Outcome outcome) ABSL_LOCKS_EXCLUDED(mutex_);

  // The server has granted a delegation in place of the open `info`, in answer to a request with
  // this `asked`. Returns the name of the local open.
  wire::StateId Granted(OpenInfo info, const wire::OpenDelegation& granted,
                        const wire::ClientId& client_id, uint64_t asked)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Stores what the open reported that got a delegation. Local opens are possible from now on.
  // Returns the number of the delegation; 0: `open` is not local.
  uint64_t Settle(const wire::StateId& open, bool only_clients, std::string owner)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // An OPEN by name for writing, which may upgrade or end a read delegation of this client, was
  // granted none.
  void Doubt(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);

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
  Closing Close(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(mutex_);
  void Downgraded(const DelegationPtr& delegation, bool ok) ABSL_LOCKS_EXCLUDED(mutex_);

  // The delegation of a local open; null: it is not local.
  DelegationPtr LenderOf(const wire::StateId& open) const ABSL_LOCKS_EXCLUDED(mutex_);
  // A local open is an open at the server from now on: as Opens::Reclaimed.
  bool MadeReal(const wire::StateId& open, const wire::StateId& state_id,
                const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server does not know the delegation of a local open: its next use reclaims it.
  void Forgotten(const DelegationPtr& delegation, const wire::StateId& open)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A request with the local open failed, because the server does not know `state_id`. If that is
  // the delegation's, it is due.
  void Lost(const wire::StateId& open, const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether opens of the delegation at the server may have more access than the local ones.
  bool WasWrite(const Delegation& delegation) const ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Locks ---

  // Another open of the file of the local open `open`, under the same delegation, for a lock owner.
  // nullopt: a request is needed.
  std::optional<wire::StateId> OpenForOwner(const wire::StateId& open, OpenInfo info)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Locks without a request: kGranted or kDenied. nullopt: a request is needed. `wait` as in
  // Locks::GrantLocally.
  std::optional<LockAnswer> Lock(const LockOwner& owner, const wire::LockRange& range,
                                 const Locks::Wait* wait) ABSL_LOCKS_EXCLUDED(mutex_);
  enum class Unlocking : uint8_t {
    kDone,
    kAtServer,  // a request is needed
    kBusy,      // the open becomes one at the server: try again after that
  };
  Unlocking Unlock(const LockOwner& owner, uint64_t first, uint64_t last)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A lock that conflicts with `range` for the owner of this name. The outer nullopt: a request is
  // needed to know.
  std::optional<std::optional<LockConflict>> TestLock(const wire::FileHandle& file,
                                                      std::string_view owner,
                                                      const wire::LockRange& range) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether locks were held under it: then what was written is committed before its return.
  bool WasLocked(const Delegation& delegation) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether read locks are held under read delegations. An OPEN by name for writing with
  // kShareWantOpenXorDelegation may end such a delegation at once.
  bool HasReadLocks() ABSL_LOCKS_EXCLUDED(mutex_);

  // Between these two the open becomes one at the server, and its locks cannot change.
  struct MakingReal {
    DelegationPtr lender;  // null: the open is not local
    bool is_busy = false;  // another caller has begun
  };
  MakingReal BeginMakingReal(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndMakingReal(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- The end of delegations ---

  // The rights to open the file are about to change, or have. No local opens from now on, nor by a
  // delegation that was requested before.
  void StopLocalOpens(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // `user` is about to set mode or owner of the file, or has. Only its owner or a superuser can,
  // and they may open it if the bits of the owner in `mode` permit that. So local opens go on if
  // these are by `user`, and permitted; otherwise as StopLocalOpens. `mode`: that of the file after
  // the change; nullopt: not known yet. `owner`: as of Settle; null: not known yet.
  void RightsChange(const wire::FileHandle& file, const Identity& user,
                    std::optional<uint32_t> mode, const std::string* owner)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A request of this client is about to end the lease of the server's kernel that protects a read
  // delegation of the file from local programs. No local opens until it is returned.
  void LeaseEnds(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // The file is about to lose a name. Ends its delegation if it has no local opens; the caller
  // returns it before, and calls Returned. Otherwise stops local opens and returns null.
  DelegationPtr TakeIdle(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // The file is not used any more: its delegation is due when it has no local opens.
  void Drop(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // BC_RECALL. BADHANDLE: the file has no delegation, not even one that is being returned.
  // BAD_STATEID: the state id is not that of its delegation.
  wire::DafsStatus Recall(const wire::FileHandle& file, const wire::StateId& state_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // All are due: they cannot be recalled any more, or the mount ends.
  void EndAll() ABSL_LOCKS_EXCLUDED(mutex_);

  // Those to be returned, each once. The caller makes its local opens real, returns it, and calls
  // Returned.
  std::vector<DelegationPtr> TakeDue() ABSL_LOCKS_EXCLUDED(mutex_);
  bool any_due() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<wire::StateId> LocalsOf(const Delegation& delegation) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // It is gone. Forgets what is still open under it.
  void Returned(const DelegationPtr& delegation) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether a delegation protects the file: no other client, and no program of the server, has
  // changed it since the delegation was granted.
  bool Protects(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // BC_GETATTR: whether there is a write delegation of the file.
  bool HoldsWrite(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);

  struct Counts {
    size_t read = 0;  // held now, also those that are being returned
    size_t write = 0;
    uint64_t local_opens = 0;  // so far
    uint64_t local_locks = 0;  // so far
    uint64_t recalls = 0;      // so far
    LatencyHistogram returns;  // of those: from BC_RECALL until the delegation was returned
  };
  Counts counts() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool IsTrusted(const Delegation& delegation) const;
  bool KeepsLocks(const Delegation& delegation) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  DelegationPtr Find(const wire::FileHandle& file) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  wire::StateId AddLocal(const DelegationPtr& delegation, OpenInfo info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a local open from its delegation. Returns whether it was one.
  bool RemoveLocal(const wire::StateId& open, DelegationPtr* delegation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotIdle(Delegation& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has no local opens any more.
  void Idle(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends it, if it has not ended. The caller returns it.
  void End(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It is returned, or was never to be.
  void DropReturning(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends it, to be returned by TakeDue.
  void MakeDue(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Delegations of the file that were requested before this are not used.
  void Doom(const wire::FileHandle& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetLocals(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Record(Delegation& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The server does not have it any more.
  void DropRecord(Delegation& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Client& client_;
  mutable absl::Mutex mutex_;
  StateRecorder* recorder_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those that have not ended.
  absl::flat_hash_map<wire::FileHandle, DelegationPtr> by_file_ ABSL_GUARDED_BY(mutex_);
  // Those that have ended and are not returned yet.
  absl::flat_hash_map<wire::StateId, DelegationPtr> returning_ ABSL_GUARDED_BY(mutex_);
  // The number of these for each file that has any.
  absl::flat_hash_map<wire::FileHandle, size_t> returning_files_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::StateId, DelegationPtr> locals_ ABSL_GUARDED_BY(mutex_);  // by name
  std::list<DelegationPtr> idle_ ABSL_GUARDED_BY(mutex_);  // of by_file_; the oldest first
  std::vector<DelegationPtr> due_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<wire::StateId> becoming_real_ ABSL_GUARDED_BY(mutex_);
  // Read delegations under which locks were held when this was looked at last.
  absl::flat_hash_set<DelegationPtr> read_locked_ ABSL_GUARDED_BY(mutex_);
  // By hash of the file: the least `asked` of a delegation that may be used.
  std::array<uint64_t, 1024> not_before_ ABSL_GUARDED_BY(mutex_) = {};
  Counts counts_ ABSL_GUARDED_BY(mutex_);  // without read and write
};

}  // namespace dafs::client
