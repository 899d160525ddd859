// The delegations of a client and their local opens: what Delegations, DelegationLocks and
// DelegationReturns share. Only these three use it (client/state/delegations.h).
// Not thread-safe by itself: a caller holds mutex() during each call, and over calls that belong
// together. The mutexes of Opens, Locks and the recorder are taken under it. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/delegation.h"
#include "client/state/doomed_files.h"
#include "client/state/ended_delegations.h"
#include "client/state/locks.h"
#include "client/state/opens.h"
#include "client/state/promises.h"
#include "client/state/records/identity.h"
#include "client/state/records/state_recorder.h"
#include "runtime/latency.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class DelegationTable {
 public:
  // Delegations without a local open. Beyond these the oldest are returned, kAtOnce together.
  static constexpr size_t kMostIdle = 8192;
  static constexpr size_t kAtOnce = 8;

  struct Counts {
    size_t read = 0;  // held now, also those that are being returned
    size_t write = 0;
    uint64_t local_opens = 0;  // so far
    uint64_t local_locks = 0;  // so far
    uint64_t recalls = 0;      // so far
    LatencyHistogram returns;  // of those: from BC_RECALL until the delegation was returned
  };

  // All must outlive this. `last_activity` is Client::last_activity, for any thread.
  DelegationTable(Opens& opens, Locks& locks, Promises& promises,
                  std::function<absl::Time()> last_activity)
      : opens_(opens),
        locks_(locks),
        promises_(promises),
        last_activity_(std::move(last_activity)) {}
  DelegationTable(const DelegationTable&) = delete;
  DelegationTable& operator=(const DelegationTable&) = delete;

  absl::Mutex& mutex() const ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  Opens& opens() { return opens_; }
  Locks& locks() { return locks_; }

  // Records all delegations from now on. Before the first one. `recorder` must outlive this.
  void RecordIn(StateRecorder* recorder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    recorder_ = recorder;
  }

  // Whether the server could recall it ever since it was requested.
  bool IsTrusted(const Delegation& delegation) const;
  // The delegation of the file that has not ended; null: there is none.
  DelegationPtr Find(const wire::FileHandle& file) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The delegation of a local open; null: it is not local.
  DelegationPtr LenderOf(const wire::StateId& open) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsLocal(const wire::StateId& open) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return locals_.contains(open);
  }

  // Makes a delegation. Add makes Find return it.
  DelegationPtr Make(const wire::FileHandle& file, const wire::StateId& state_id,
                     const wire::ClientId& client_id, Identity user, uint64_t asked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Record(Delegation& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The server does not have it any more.
  void DropRecord(Delegation& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Adds a local open, also to Opens. Returns its name.
  wire::StateId AddLocal(const DelegationPtr& delegation, OpenInfo info)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same for one that is in Opens already.
  void RestoreLocal(const DelegationPtr& delegation, const wire::StateId& open,
                    const OpenInfo& info) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a local open from its delegation and returns that; null: it was not local.
  DelegationPtr RemoveLocal(const wire::StateId& open) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The server does not know its local opens: their next use reclaims them.
  void ForgetLocals(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // It has no local opens any more. Beyond kMostIdle the oldest of those are due.
  void Idle(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Delegations of the file that were requested before this are not used.
  void Doom(const wire::FileHandle& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDoomed(const wire::FileHandle& file, uint64_t asked) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !doomed_.MayUse(file, asked);
  }
  // Ends it, if it has not ended. The caller returns it.
  void End(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends it, to be returned by DelegationReturns::TakeDue.
  void MakeDue(const DelegationPtr& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeAllDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  EndedDelegations& ended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; }

  // Read delegations under which locks were held when DelegationLocks looked at them last.
  absl::flat_hash_set<DelegationPtr>& read_locked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return read_locked_;
  }
  // To be counted up. CountsNow adds what is held.
  Counts& counts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return counts_; }
  Counts CountsNow() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

 private:
  void NotIdle(Delegation& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Opens& opens_;
  Locks& locks_;
  Promises& promises_;
  const std::function<absl::Time()> last_activity_;
  mutable absl::Mutex mutex_;
  StateRecorder* recorder_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those that have not ended.
  absl::flat_hash_map<wire::FileHandle, DelegationPtr> by_file_ ABSL_GUARDED_BY(mutex_);
  EndedDelegations ended_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::StateId, DelegationPtr> locals_ ABSL_GUARDED_BY(mutex_);  // by name
  std::list<DelegationPtr> idle_ ABSL_GUARDED_BY(mutex_);  // of by_file_; the oldest first
  absl::flat_hash_set<DelegationPtr> read_locked_ ABSL_GUARDED_BY(mutex_);
  DoomedFiles doomed_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);  // without read and write
};

}  // namespace dafs::client
