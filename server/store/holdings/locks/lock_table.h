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
// A client that waits for a notice (private, WIRE 9.6) retries rarely. Once its ticket reserves the
// range, TakeTurns returns the ticket, and the caller sends BC_LOCK_FREE. From then on the
// reservation lasts for kTicketLife.
//
// Deadlocks. The table has all locks and all waits of all clients, so it can see a process that
// would wait, in any number of steps, for a lock of its own. Only tickets of processes count
// (kLockOfProcess) that have not expired, and only locks that are held now.
//
// The table does not call the kernel. It stores a KernelLock for each owner; the caller uses it,
// and serialises changes to one file (ObjectLocks::FileLock). Thread-safe. Nothing here blocks or
// calls the file system.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/holdings/locks/kernel_lock.h"
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
  // The same for a client that waits for a notice. It retries every five seconds.
  static constexpr absl::Duration kAwaitingTicketLife = absl::Seconds(15);
  // Limits for each client, which bound the memory of the table.
  static constexpr size_t kLocksPerClient = 1 << 16;
  static constexpr size_t kTicketsPerClient = 1 << 12;

  struct Conflict {
    LockOwner owner;  // holds the lock, or waits for it and comes first
    wire::LockRange range;
  };

  // Returns a lock or reservation of another owner, of the same client or another one, that
  // conflicts with `range`. Does not see locks of local programs.
  std::optional<Conflict> Check(const ObjectKey& file, const LockOwner& owner,
                                const wire::LockRange& range, absl::Time now) const;
  // As Check, but ignores reservations: for LOCKT, and for locks that are reclaimed.
  std::optional<Conflict> CheckHeld(const ObjectKey& file, const LockOwner& owner,
                                    const wire::LockRange& range) const;

  // Whether another client than `but` holds a write lock on the file.
  bool IsWriteLocked(const ObjectKey& file, const wire::ClientId& but) const;

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

  struct WaitMode {
    // A program on the server holds the conflicting lock. The table cannot see when it ends, so the
    // ticket reserves nothing, and TakeTurns does not return it.
    bool by_kernel = false;
    bool awaits = false;      // the client waits for a notice
    bool of_process = false;  // may be part of a deadlock
  };
  // Adds or renews the ticket of `owner` for `range`, which was denied. Returns false if that would
  // be a deadlock: then the owner has no ticket for the range.
  [[nodiscard]] bool Wait(const ObjectKey& file, const LockOwner& owner,
                          const wire::LockRange& range, absl::Time now, const WaitMode& mode);
  // Removes the owner's tickets that overlap `range`.
  void StopWaiting(const ObjectKey& file, const LockOwner& owner, const wire::LockRange& range);

  // A ticket whose client must get a notice that the range is reserved for it.
  struct Turn {
    ObjectKey file;
    LockOwner owner;
    wire::LockRange range;
  };
  // Whether TakeTurns may return something: cheap, for after each change.
  bool has_turns() const { return has_turns_.load(std::memory_order_acquire); }
  // Returns each such ticket once, in the order in which they wait. Examines only files with
  // tickets that have changed since the last call.
  std::vector<Turn> TakeTurns(absl::Time now);
  // The client cannot be reached: removes the ticket, so that the next one gets its turn.
  void DropTurn(const Turn& turn);
  // The client can no longer be reached: removes its tickets that wait for a notice.
  void DropAwaiting(const wire::ClientId& client_id);

  // The KernelLock of an owner for a file; null if there is none. The pointer is valid while the
  // caller serialises changes to the file's locks. SetKernel also accepts an owner without locks.
  // Once Clear removes the last lock, the table no longer has the KernelLock.
  KernelLock* FindKernel(const ObjectKey& file, const LockOwner& owner) const;
  KernelLock* SetKernel(const ObjectKey& file, const LockOwner& owner,
                        std::unique_ptr<KernelLock> kernel);
  // Removes and returns the KernelLock if the owner holds no lock.
  std::unique_ptr<KernelLock> DropUnused(const ObjectKey& file, const LockOwner& owner);

  // The locks of an owner on a file.
  wire::LockRanges Held(const ObjectKey& file, const LockOwner& owner) const;

  // For the administrator: the files with locks or waiters, and what there is on one of them: locks
  // first, then waiters in their order. At most `most` entries.
  std::vector<ObjectKey> Files() const;
  struct Entry {
    LockOwner owner;
    wire::LockRange range;
    bool waits = false;
    bool by_kernel = false;  // waits for a program of this machine
  };
  std::vector<Entry> EntriesOf(const ObjectKey& file, absl::Time now, size_t most) const;

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
    WaitMode mode;
    absl::Time expires;     // unless the client retries before
    bool notified = false;  // TakeTurns has returned it since the last retry
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
  void DropTickets(const ObjectKey& key, File& file, Match match)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetProcess(const ObjectKey& key, Ticket& ticket, bool of_process)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records that tickets of the file may have their turn.
  void Changed(const ObjectKey& key, const File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FindTurns(const ObjectKey& key, File& file, absl::Time now, std::vector<Turn>* turns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the process of `owner` would wait for itself if it waited for `range`.
  bool IsDeadlock(const ObjectKey& key, const LockOwner& owner, const wire::LockRange& range,
                  absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All owners of one process. Not an owner: its name is the common part of theirs.
  static LockOwner ProcessOf(const LockOwner& owner);
  void Count(const wire::ClientId& client_id, size_t Counts::*what, int64_t change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tidy(const ObjectKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<ObjectKey, File> files_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::ClientId, Counts> counts_ ABSL_GUARDED_BY(mutex_);
  // By process: the files of its tickets that may be part of a deadlock; a file twice for two.
  absl::flat_hash_map<LockOwner, std::vector<ObjectKey>> waiting_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<ObjectKey> changed_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_turns_{false};  // changed_ is not empty
};

}  // namespace dafs::server
