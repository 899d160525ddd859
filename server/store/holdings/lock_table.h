// The byte-range locks that DAFS clients hold, and the queue of waiting requests.
// Spec: 4.4.1.2 (lock ranges, blocking locks), 6.5.18 to 6.5.20.
//
// The owner of a lock is the owner of its OPEN: (client id, owner), for each file. A blocking
// request (READW, WRITEW) that conflicts is denied at once and leaves a ticket. The client retries,
// and the ticket keeps its place in the queue. Once no held lock conflicts with the first ticket,
// the table reserves the range for it, for kTicketLife after the last retry. While a held lock
// blocks a ticket, the ticket reserves nothing: otherwise a request queued after it could wait for
// locks of its own owner.
//
// The table does not call the kernel. It stores a KernelLock for each owner; the caller uses it,
// and serialises changes to one file (StoreImpl::FileLock). Thread-safe. Nothing here blocks or
// calls the file system.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/holdings/kernel_lock.h"
#include "server/store/objects/object.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct LockOwner {
  wire::ClientId client_id;
  std::string owner;  // as OPEN named it

  friend bool operator==(const LockOwner&, const LockOwner&) = default;
  template <class H>
  friend H AbslHashValue(H h, const LockOwner& o) {
    return H::combine(std::move(h), o.client_id, o.owner);
  }
};

class LockTable {
 public:
  // Clients retry ten times a second. A waiter that has not retried for this long has gone away.
  static constexpr absl::Duration kTicketLife = absl::Seconds(2);
  // Limits for each client, which bound the memory of the table.
  static constexpr size_t kLocksPerClient = 1 << 16;
  static constexpr size_t kTicketsPerClient = 1 << 12;

  struct Conflict {
    LockOwner owner;  // zero and empty: the range is reserved for an earlier waiter
    wire::LockRange range;
  };

  // Returns a lock or reservation of another owner, of the same client or another one, that
  // conflicts with `range`. Does not see locks of local programs.
  std::optional<Conflict> Check(const ObjectKey& file, const LockOwner& owner,
                                const wire::LockRange& range, absl::Time now) const;
  // As Check, but ignores reservations: for LOCKT, and for locks that are reclaimed.
  std::optional<Conflict> CheckHeld(const ObjectKey& file, const LockOwner& owner,
                                    const wire::LockRange& range) const;

  // Returns false if the client has too many locks.
  bool MayGrant(const LockOwner& owner) const;
  // Records that `owner` holds `range`, and removes the owner's tickets that overlap it.
  void Grant(const ObjectKey& file, const LockOwner& owner, const wire::LockRange& range);
  // Removes the owner's locks from `first` to `last`. Returns whether the owner still holds locks
  // on the file; if not, moves its KernelLock to *kernel.
  bool Clear(const ObjectKey& file, const LockOwner& owner, uint64_t first, uint64_t last,
             std::unique_ptr<KernelLock>* kernel);
  // Removes all locks and tickets of `owner`, after its OPEN has ended. Returns its KernelLock, if
  // any.
  std::unique_ptr<KernelLock> Release(const ObjectKey& file, const LockOwner& owner);

  // Adds or renews the ticket of `owner` for `range`, which was denied. `by_kernel`: a program on
  // the server holds the conflicting lock, so the ticket reserves nothing.
  void Wait(const ObjectKey& file, const LockOwner& owner, const wire::LockRange& range,
            absl::Time now, bool by_kernel);
  // Removes the owner's tickets that overlap `range`.
  void StopWaiting(const ObjectKey& file, const LockOwner& owner, const wire::LockRange& range);

  // The KernelLock of an owner for a file; null if there is none. The pointer is valid while the
  // caller serialises changes to the file's locks. SetKernel also accepts an owner without locks.
  // Once Clear removes the last lock, the table no longer has the KernelLock.
  KernelLock* FindKernel(const ObjectKey& file, const LockOwner& owner) const;
  KernelLock* SetKernel(const ObjectKey& file, const LockOwner& owner,
                        std::unique_ptr<KernelLock> kernel);
  // Removes and returns the KernelLock if the owner holds no lock.
  std::unique_ptr<KernelLock> DropUnused(const ObjectKey& file, const LockOwner& owner);

  // The locks of an owner on a file; LocksOf: all locks of a client, for its record.
  wire::LockRanges Held(const ObjectKey& file, const LockOwner& owner) const;
  struct HeldLock {
    ObjectKey file;
    std::string owner;
    wire::LockRange range;
  };
  std::vector<HeldLock> LocksOf(const wire::ClientId& client_id) const;

  size_t size() const;     // locks held
  size_t waiting() const;  // tickets, fresh or not

 private:
  struct Holder {
    LockOwner owner;
    wire::LockRanges ranges;
    std::unique_ptr<KernelLock> kernel;
  };
  struct Ticket {
    LockOwner owner;
    wire::LockRange range;
    absl::Time asked;  // time of the last retry
    bool by_kernel = false;
  };
  struct File {
    std::vector<Holder> holders;  // searched linearly: few owners lock one file at a time
    std::deque<Ticket> tickets;   // oldest first
  };
  struct Counts {
    size_t locks = 0;
    size_t tickets = 0;
  };

  static const Holder* Find(const File& file, const LockOwner& owner);
  Holder& FindOrAdd(File& file, const LockOwner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::optional<Conflict> HeldAgainst(const File& file, const LockOwner& owner,
                                             const wire::LockRange& range);
  std::unique_ptr<KernelLock> EraseHolder(const ObjectKey& key, File& file, const LockOwner& owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <class Match>
  void DropTickets(File& file, Match match) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const wire::ClientId& client_id, size_t Counts::*what, int64_t change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tidy(const ObjectKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<ObjectKey, File> files_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::ClientId, Counts> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
