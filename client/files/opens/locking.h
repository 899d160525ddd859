// Acquires, tests and releases locks of byte ranges, and waits for them.
// Spec: 4.4.1.2, 6.5.18, 6.5.19, 6.5.20.
// Threads and blocking: client/files/files.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/state/lock_answer.h"
#include "client/state/locks.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class DelegationOperations;
class LockWait;

class LockOperations : public OperationGroup {
 public:
  // `delegating` opens at the server what is to be locked. It outlives this.
  LockOperations(const OperationContext& context, DelegationOperations& delegating)
      : OperationGroup(context), delegating_(delegating) {}

  // Locks `range` for `owner`. The owner's open must allow it: a read lock needs an open for
  // reading, a write lock an open for writing, flock neither. Replaces what the owner held in the
  // range. `wait` outlives the task. With it, the request is repeated until the lock is granted,
  // the wait is cancelled, or a deadlock is found; no slot is held between two requests. If the
  // server announces free locks, it is repeated only then. Sends nothing if a delegation suffices
  // (client/state/delegations.h).
  // kUnimplemented: the server has no locks, or no persistent ones. ACCES, BAD_STATEID, EXPIRED,
  // RESOURCE (too many locks). LOCK_BROKEN: the client that held the range has failed.
  Task<absl::StatusOr<LockAnswer>> Lock(const Identity& user, const LockOwner& owner,
                                        const wire::LockRange& range, LockWait* wait = nullptr,
                                        LockOptions lock_options = {});
  // Call it after a silence in which leases may have expired. Checks at the server whether each
  // lock is still held (4.4.1.2). A lost lock is logged, and the next use of its file fails.
  Task<void> ValidateLocks();
  // Returns a lock that conflicts with `range` for the owner of this name; nullopt: none.
  Task<absl::StatusOr<std::optional<LockConflict>>> TestLock(const Identity& user,
                                                             const wire::FileHandle& file,
                                                             std::string_view owner,
                                                             const wire::LockRange& range);
  // Undoes a lock that was granted after its caller had given up. Afterwards the owner holds
  // exactly `before` of `range`. Meanwhile no other owner can lock the ranges in `before`.
  Task<absl::Status> GiveBack(const Identity& user, const LockOwner& owner,
                              const wire::LockRange& range,
                              const std::vector<wire::LockRange>& before);
  // Unlocks everything from `first` to `last`, inclusive. OK also if nothing was held.
  Task<absl::Status> Unlock(const Identity& user, const LockOwner& owner, uint64_t first,
                            uint64_t last);
  // 6.5.18 ABORT_LT: undoes what was changed under an AUTORECOVERY lock, which stays held. OK also
  // without such a lock; a place in the queue for the range is then released.
  Task<absl::Status> Abort(const Identity& user, const LockOwner& owner,
                           const wire::LockRange& range);
  // Releases every lock of the open `state_id`, which is about to be closed (4.4.1.2). Does nothing
  // if it holds none.
  Task<void> ReleaseBeforeClose(const Identity& user, const wire::FileHandle& file,
                                const wire::StateId& state_id);
  // Ends every wait of Lock with `why`, at the end of the mount.
  void EndWaits(const absl::Status& why);

 private:
  Task<void> ValidateLock(LockOwner owner);
  Task<void> Abandon(Identity user, LockOwner owner, wire::LockRange range);
  Task<absl::StatusOr<LockAnswer>> LockAtServer(const Identity& user, const LockOwner& owner,
                                                const wire::LockRange& range, wire::LockType type,
                                                uint32_t options);
  Task<absl::StatusOr<LockAnswer>> LockOnce(const Identity& user, const LockOwner& owner,
                                            const wire::LockRange& range, wire::LockType type,
                                            uint32_t options = 0);
  uint32_t WaitOptions(const LockOwner& owner) const;
  Task<void> CommitBeforeUnlock(const Identity& user, const wire::FileHandle& file);
  Task<void> UnlockBeforeClose(const Identity& user, const wire::FileHandle& file,
                               const wire::StateId& state_id,
                               const std::vector<wire::LockRange>& held);

  DelegationOperations& delegating_;
  absl::flat_hash_set<LockWait*> waits_;  // those that pause between two requests
};

}  // namespace dafs::client
