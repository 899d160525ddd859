// Locks of local opens, which need no request if only clients change the export: read locks under
// any delegation, write locks under a write delegation by an open for writing. The table of locks
// is Locks. When the open becomes one at the server, its locks are requested there first.
// Spec: 6.5.18 to 6.5.20; WIRE 9.7.
// Thread-safe: shared by the workers of a client. Nothing blocks. Delegations owns it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "client/state/delegation.h"
#include "client/state/delegation_table.h"
#include "client/state/lock_answer.h"
#include "client/state/locks.h"
#include "client/state/opens.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class DelegationLocks {
 public:
  // `table` must outlive this.
  explicit DelegationLocks(DelegationTable& table) : table_(table) {}
  DelegationLocks(const DelegationLocks&) = delete;
  DelegationLocks& operator=(const DelegationLocks&) = delete;

  // Another open of the file of the local open `open`, under the same delegation, for a lock owner.
  // nullopt: a request is needed.
  std::optional<wire::StateId> OpenForOwner(const wire::StateId& open, OpenInfo info)
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  // Locks without a request: kGranted or kDenied. nullopt: a request is needed. `wait` as in
  // Locks::GrantLocally.
  std::optional<LockAnswer> Lock(const LockOwner& owner, const wire::LockRange& range,
                                 const Locks::Wait* wait) ABSL_LOCKS_EXCLUDED(table_.mutex());
  enum class Unlocking : uint8_t {
    kDone,
    kAtServer,  // a request is needed
    kBusy,      // the open becomes one at the server: try again after that
  };
  Unlocking Unlock(const LockOwner& owner, uint64_t first, uint64_t last)
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  // A lock that conflicts with `range` for the owner of this name. The outer nullopt: a request is
  // needed to know.
  std::optional<std::optional<LockConflict>> TestLock(const wire::FileHandle& file,
                                                      std::string_view owner,
                                                      const wire::LockRange& range) const
      ABSL_LOCKS_EXCLUDED(table_.mutex());
  // Whether read locks are held under read delegations. An OPEN by name for writing with
  // kShareWantOpenXorDelegation may end such a delegation at once.
  bool HasReadLocks() ABSL_LOCKS_EXCLUDED(table_.mutex());

  // Between these two the open becomes one at the server, and its locks cannot change.
  struct MakingReal {
    DelegationPtr lender;  // null: the open is not local
    bool is_busy = false;  // another caller has begun
  };
  MakingReal BeginMakingReal(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(table_.mutex());
  void EndMakingReal(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(table_.mutex());

 private:
  bool KeepsLocks(const Delegation& delegation) const ABSL_SHARED_LOCKS_REQUIRED(table_.mutex());

  DelegationTable& table_;
  absl::flat_hash_set<wire::StateId> becoming_real_ ABSL_GUARDED_BY(table_.mutex());
};

}  // namespace dafs::client
