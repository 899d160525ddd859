// The locks that a client holds at its server, and the local processes that wait for them. Used to
// reclaim locks, to release them before CLOSE, to wake the waiters of a lock released in this
// client, and to find deadlocks.
// Spec: 4.4.1.2 (blocking locks, recovery), 6.5.18 to 6.5.20.
//
// Finds only deadlocks among processes of this client; fcntl(2) promises that for one system. A
// server with kExtensionLockWaits finds those of several clients. The graph holds only the locks
// held here at present, not past answers of the server, so a lock that was released cannot complete
// a cycle.
// Thread-safe; nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "runtime/loop_wait.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// The owner of locks: an OPEN of the file. Its open owner owns the locks.
struct LockOwner {
  wire::FileHandle file;
  wire::StateId state_id;
  // Owners with the same number are one process, which may lock several files. 0: no process, so
  // never part of a deadlock.
  uint64_t process = 0;
};

class Locks {
 public:
  // Granted and Released record that the server granted or released a lock. Released wakes the
  // local waiters for it. Granted returns what the owner held in the range before.
  std::vector<wire::LockRange> Granted(const LockOwner& owner, const wire::LockRange& range)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes the lock before the unlock is sent, so that a reclaim does not claim it if the server
  // restarts meanwhile. The caller calls Wake afterwards. Returns false if the owner holds no lock.
  bool Release(const LockOwner& owner, uint64_t first, uint64_t last) ABSL_LOCKS_EXCLUDED(mutex_);
  void Released(const LockOwner& owner, uint64_t first, uint64_t last) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes all locks of an OPEN before its CLOSE. Returns them; the caller passes them to Wake
  // after the server has released them.
  std::vector<wire::LockRange> Forget(const wire::FileHandle& file, const wire::StateId& state_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Wake(const wire::FileHandle& file, const std::vector<wire::LockRange>& ranges)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The locks of one open, ascending, for reclaim.
  std::vector<wire::LockRange> HeldBy(const wire::FileHandle& file,
                                      const wire::StateId& state_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // An open other than `but` that holds a lock overlapping [first, last].
  std::optional<wire::StateId> OverlappedBy(const wire::FileHandle& file, uint64_t first,
                                            uint64_t last, const wire::StateId& but) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Every open that holds locks.
  std::vector<LockOwner> Owners() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether any owner of this client holds a lock on `file`.
  bool IsLocked(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t count() const ABSL_LOCKS_EXCLUDED(mutex_);

  // A waiter for `range`. `waker` is used when a conflicting lock was released in this client, or
  // when the server announces that the range is free.
  struct Wait {
    LockOwner owner;  // process 0 if deadlocks cannot be detected
    wire::LockRange range;
    LoopWait::Waker waker;
    // Guarded by the table's mutex, which an annotation cannot name here.
    bool awaits = false;     // the server has been asked to announce it
    bool announced = false;  // it has, since the last request
  };
  // The caller owns `wait`, which must live until EndWait.
  void BeginWait(Wait* wait) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndWait(Wait* wait) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the server can announce free locks: the control session has a Back-control Channel.
  bool announced() const { return announced_.load(std::memory_order_acquire); }
  // Sets that. Wakes all waiters, unless nothing was announced before or is now: the server may
  // have dropped their places, or forgotten what it has announced.
  void SetAnnounced(bool announced) ABSL_LOCKS_EXCLUDED(mutex_);
  // BC_LOCK_FREE: wakes the first waiter for exactly this range that was not woken yet.
  void Announce(const wire::FileHandle& file, uint64_t offset, uint64_t length)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A request of `wait` was denied. `awaits`: the request asked for an announcement, so a release
  // in this client need not wake the waiter. If an announcement had woken it, another waiter was
  // meant: wakes the next one for the range.
  void Denied(Wait* wait, bool awaits) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the waits form a cycle: the holder of a lock that `wait` needs waits, in any number of
  // steps, for a lock of the waiting process.
  bool IsDeadlock(const Wait& wait) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Owner {
    uint64_t process = 0;
    wire::LockRanges ranges;
  };
  struct File {
    absl::flat_hash_map<wire::StateId, Owner> owners;
    std::vector<Wait*> waits;  // in order of arrival
  };
  static void AnnounceAfter(const std::vector<Wait*>& waits, const Wait* after,
                            const wire::LockRange& range);
  void WakeSome(const File& file, uint64_t first, uint64_t last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tidy(const wire::FileHandle& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> announced_{false};
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<wire::FileHandle, File> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
