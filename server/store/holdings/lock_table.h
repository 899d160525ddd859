// The locks that DAFS clients hold, and who waits for them.
// Spec: 4.4.1.2 (lock ranges, blocking locks), 6.5.18 to 6.5.20.
//
// A lock's owner is the owner of the OPEN it came through: (client id, owner), for each file. Who
// waits (READW, WRITEW) holds nothing here but a ticket: his request is denied at once, he asks
// again, and the ticket keeps his place. When nothing that is held stands in the way of the first
// ticket any more, its range is kept for it as long as the ticket is fresh: kTicketLife after he
// last asked. Never longer, and never while a held lock blocks the ticket anyway: a request that
// only queues behind others would otherwise wait for locks that its own owner holds.
//
// The table knows nothing of the kernel: it carries a KernelLock with each owner and leaves it to
// the caller, who serialises changes to one file (StoreImpl::FileLock).
// Thread-safe. Nothing here blocks or calls the file system.
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
  // Clients ask again ten times a second; beyond this one is taken to have gone away.
  static constexpr absl::Duration kTicketLife = absl::Seconds(2);
  // What one client can make the server remember.
  static constexpr size_t kLocksPerClient = 1 << 16;
  static constexpr size_t kTicketsPerClient = 1 << 12;

  // What stands in the way.
  struct Conflict {
    LockOwner owner;  // nobody (zero, empty): kept for somebody who has waited longer
    wire::LockRange range;
  };

  // Whether `owner` may have `range` of `file` now, as far as DAFS clients go.
  std::optional<Conflict> Check(const ObjectKey& file, const LockOwner& owner,
                                const wire::LockRange& range, absl::Time now) const;
  // As Check, but only what is held: for LOCKT, and for locks that are reclaimed.
  std::optional<Conflict> CheckHeld(const ObjectKey& file, const LockOwner& owner,
                                    const wire::LockRange& range) const;

  // False: the client has too many locks.
  bool MayGrant(const LockOwner& owner) const;
  // `owner` holds `range` now, and waits for it no more.
  void Grant(const ObjectKey& file, const LockOwner& owner, const wire::LockRange& range);
  // Nothing from `first` to `last`. Whether anything is left; if not, the owner's KernelLock is
  // moved to *kernel.
  bool Clear(const ObjectKey& file, const LockOwner& owner, uint64_t first, uint64_t last,
             std::unique_ptr<KernelLock>* kernel);
  // Everything that `owner` holds and waits for: his OPEN has ended. His KernelLock, if any.
  std::unique_ptr<KernelLock> Release(const ObjectKey& file, const LockOwner& owner);

  // `owner` was denied `range` and waits for it. `by_kernel`: it was a program of the server that
  // stood in the way, so that nothing is kept for him meanwhile.
  void Wait(const ObjectKey& file, const LockOwner& owner, const wire::LockRange& range,
            absl::Time now, bool by_kernel);
  // Gives up waiting for whatever overlaps `range`.
  void StopWaiting(const ObjectKey& file, const LockOwner& owner, const wire::LockRange& range);

  // The kernel's side of an owner's locks on a file; null: he has none. Good as long as the caller
  // keeps others from changing the file's locks. SetKernel is for an owner with or without locks;
  // what Clear leaves without any is gone with it.
  KernelLock* FindKernel(const ObjectKey& file, const LockOwner& owner) const;
  KernelLock* SetKernel(const ObjectKey& file, const LockOwner& owner,
                        std::unique_ptr<KernelLock> kernel);
  // Takes it out again if he has no lock after all.
  std::unique_ptr<KernelLock> DropUnused(const ObjectKey& file, const LockOwner& owner);

  // What an owner holds on a file; and all that a client holds, for those who keep records of it.
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
    absl::Time asked;  // last
    bool by_kernel = false;
  };
  struct File {
    // Few owners lock one file at a time.
    std::vector<Holder> holders;
    std::deque<Ticket> tickets;  // first come first
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
