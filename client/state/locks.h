// The locks that a client holds at its server, and which of its processes wait for which: what
// recovery has to take again, what CLOSE has to give up first, which waiters a release in this
// client concerns, and whether waiting would be a deadlock.
// Spec: 4.4.1.2 (blocking locks, recovery), 6.5.18 to 6.5.20.
//
// Only deadlocks among processes of this client are found, as fcntl(2) promises for one system; the
// graph is made of what is held here just now, not of what the server once said, so that an edge
// that has gone cannot close a circle.
// Thread-safe; nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Who locks: an OPEN of the file, whose owner is the locks' owner.
struct LockOwner {
  wire::FileHandle file;
  wire::StateId state_id;
  // Owners with the same number are one process, which may lock several files; 0: of none, and
  // never part of a deadlock.
  uint64_t process = 0;
};

class Locks {
 public:
  // The server has granted a lock, or taken back what was held. Who waits here for what was held is
  // woken. Granted returns what the owner held in the range before.
  std::vector<wire::LockRange> Granted(const LockOwner& owner, const wire::LockRange& range)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // It is about to be given up: if the server restarts now nobody claims it. Wake follows. False:
  // the owner holds nothing.
  bool Release(const LockOwner& owner, uint64_t first, uint64_t last) ABSL_LOCKS_EXCLUDED(mutex_);
  void Released(const LockOwner& owner, uint64_t first, uint64_t last) ABSL_LOCKS_EXCLUDED(mutex_);
  // Its OPEN is about to end, and all its locks with it. What was held, for Wake to be told once
  // the server has taken it back.
  std::vector<wire::LockRange> Forget(const wire::FileHandle& file, const wire::StateId& state_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Wake(const wire::FileHandle& file, const std::vector<wire::LockRange>& ranges)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // What one open holds, ascending: for recovery.
  std::vector<wire::LockRange> HeldBy(const wire::FileHandle& file,
                                      const wire::StateId& state_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The open by which a range is locked here that overlaps [first, last], if it is not `but`.
  std::optional<wire::StateId> OverlappedBy(const wire::FileHandle& file, uint64_t first,
                                            uint64_t last, const wire::StateId& but) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Every open that holds locks.
  std::vector<LockOwner> Owners() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether anything of `file` is locked here, by whatever owner.
  bool IsLocked(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t count() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Somebody who waits for `range`. `wake` is called, from any thread and under the mutex, when
  // something in the way was given up here; it must only post.
  struct Wait {
    LockOwner owner;  // with process 0 where a deadlock cannot be told
    wire::LockRange range;
    std::function<void()> wake;
  };
  // `wait` stays the caller's until EndWait.
  void BeginWait(Wait* wait) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndWait(Wait* wait) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether whoever stands in the way of `wait` waits himself, over any number of steps, for
  // something its process holds.
  bool IsDeadlock(const Wait& wait) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Owner {
    uint64_t process = 0;
    wire::LockRanges ranges;
  };
  struct File {
    absl::flat_hash_map<wire::StateId, Owner> owners;
    std::vector<Wait*> waits;  // in the order they came
  };
  void WakeSome(const File& file, uint64_t first, uint64_t last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tidy(const wire::FileHandle& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<wire::FileHandle, File> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
