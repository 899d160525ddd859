// The locks that a client holds, and the local processes that wait for them. Used to reclaim locks,
// to release them before CLOSE, to wake the waiters of a lock released in this client, and to find
// deadlocks.
//
// Under a delegation a client locks without its server (client/state/delegations.h): such a lock is
// known only here until its open is opened at the server. Either all locks of a file are local, or
// none is granted locally, so that two owners never hold conflicting locks in different places.
// Spec: 4.4.1.2 (blocking locks, recovery), 6.5.18 to 6.5.20.
//
// Finds only deadlocks among processes of this client; fcntl(2) promises that for one system. A
// server with kExtensionLockWaits finds those of several clients. The graph holds only the locks
// held here at present, not past responses of the server, so a lock that was released cannot
// complete a cycle. Thread-safe; nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "client/state/records/state_recorder.h"
#include "runtime/loop/loop_wait.h"
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
  // Records all locks from now on. Before the first one. `recorder` must outlive this.
  void RecordIn(StateRecorder* recorder) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    recorder_ = recorder;
  }

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

  // --- Local locks ---

  struct Wait;
  enum class Local : uint8_t {
    kGranted,
    kDenied,    // another owner of this client holds a conflicting lock, or is next in turn
    kAtServer,  // a request must decide: the server has locks of this client in the file, or may
                // soon
  };
  // Locks without the server, for an owner with a local open. Only for DelegationLocks. `wait`:
  // that of the caller, if it has begun; earlier ones come first. `before` as Granted returns it.
  Local GrantLocally(const LockOwner& owner, const wire::LockRange& range, const Wait* wait,
                     std::vector<wire::LockRange>* before) ABSL_LOCKS_EXCLUDED(mutex_);
  // The open is not local any more: the server knows its locks, or they are being reclaimed.
  void MadeReal(const wire::FileHandle& file, const wire::StateId& open)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The opens that hold local locks on `file`.
  std::vector<wire::StateId> LocalOpens(const wire::FileHandle& file) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Locks that conflict with `range`, each with its open.
  std::vector<std::pair<wire::StateId, wire::LockRange>> ConflictsWith(
      const wire::FileHandle& file, const wire::LockRange& range) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether requests for locks of the file are under way, or it is locked at the server.
  bool IsAtServer(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Wakes all waiters for locks of the file: from now on they must ask the server.
  void WakeAll(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // Lives from before a request for a lock of `file` until its result is recorded here.
  class AtServer {
   public:
    AtServer(Locks& locks, const wire::FileHandle& file) : locks_(locks), file_(file) {
      locks_.CountAtServer(file_, 1);
    }
    ~AtServer() { locks_.CountAtServer(file_, -1); }
    AtServer(const AtServer&) = delete;
    AtServer& operator=(const AtServer&) = delete;

   private:
    Locks& locks_;
    const wire::FileHandle file_;
  };

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
  // For a program that continues the client: `owner` holds `ranges`. `is_local`: the server does
  // not know that.
  void Restore(const LockOwner& owner, const std::vector<wire::LockRange>& ranges, bool is_local)
      ABSL_LOCKS_EXCLUDED(mutex_);
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
    bool awaits = false;     // a request has asked the server to announce it
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
    bool local = false;  // the server does not know the locks
    wire::LockRanges ranges;
    StateRecorder::Slot slot = 0;
  };
  struct File {
    absl::flat_hash_map<wire::StateId, Owner> owners;
    std::vector<Wait*> waits;  // in order of arrival
    int at_server = 0;         // AtServer objects
  };
  void Record(const wire::FileHandle& file, const wire::StateId& open, Owner& held)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::vector<wire::LockRange> Set(Owner& held, const LockOwner& owner,
                                          const wire::LockRange& range);
  static bool HasAtServer(const File& file);
  static bool IsBlocked(const File& file, const LockOwner& owner, const wire::LockRange& range);
  void CountAtServer(const wire::FileHandle& file, int by) ABSL_LOCKS_EXCLUDED(mutex_);
  static void AnnounceAfter(const std::vector<Wait*>& waits, const Wait* after,
                            const wire::LockRange& range);
  void WakeSome(const File& file, uint64_t first, uint64_t last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tidy(const wire::FileHandle& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> announced_{false};
  mutable absl::Mutex mutex_;
  StateRecorder* recorder_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::flat_hash_map<wire::FileHandle, File> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
