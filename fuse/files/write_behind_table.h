// Tracks the parts of files that are written behind: the kernel has its reply, but the server does
// not have the data yet. Requests that could see that the data is missing, or that must not
// overtake it, wait here. They wait in the same way for the abandoned request of a killed program,
// because the kernel believes that it has ended.
//
// Thread-safe: shared by the workers of a mount, each of which writes and waits. Nothing blocks.
// There is one mutex for all. A write-behind takes it twice, briefly. Everything else takes it only
// while a part is outstanding.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/loop/loop_wait.h"

namespace dafs::fuse {

class WriteBehindTable {
 public:
  // For WakeWhenDrained: all files.
  static constexpr uint64_t kAnyNode = 0;

  WriteBehindTable() = default;
  WriteBehindTable(const WriteBehindTable&) = delete;
  WriteBehindTable& operator=(const WriteBehindTable&) = delete;

  // No part of any file is outstanding. Saves the caller the mutex.
  bool idle() const { return out_.load(std::memory_order_acquire) == 0; }

  // Adds an outstanding part: `size` bytes, at least one, from byte `offset` of the file. Returns
  // false if some of them are already outstanding: the later write must not overtake the earlier.
  bool Begin(uint64_t nodeid, uint64_t offset, uint64_t size) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the part that begins at `offset` longer by `more` bytes. Returns false if some of these
  // are already outstanding.
  bool Lengthen(uint64_t nodeid, uint64_t offset, uint64_t more) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server has the part that begins at `offset`, or will never have it. Wakes those who waited
  // for it.
  void End(uint64_t nodeid, uint64_t offset) ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds all of a file or directory as an outstanding part, whatever else of it is outstanding.
  // Returns the number of the part, for Release.
  uint64_t Hold(uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends a part that Hold added, as End does.
  void Release(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);

  bool Holds(uint64_t nodeid) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Uses `waker` when all parts of the file that are outstanding now have ended, even if later
  // parts are outstanding. If there is no such part, returns false and drops `waker`.
  bool WakeWhenDrained(uint64_t nodeid, LoopWait::Waker waker) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Part {
    uint64_t nodeid = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t number = 0;  // in the order in which parts begin
    bool held = false;    // by Hold
  };
  struct Waiter {
    uint64_t nodeid = 0;
    uint64_t last = 0;  // the number of the last part to wait for
    LoopWait::Waker waker;
  };

  bool Overlaps(uint64_t nodeid, uint64_t begin, uint64_t end) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsOut(uint64_t nodeid, uint64_t last) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The part that Begin added there.
  std::vector<Part>::iterator Find(uint64_t nodeid, uint64_t offset)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the waiters without a part left to wait for, to be woken without the mutex.
  std::vector<Waiter> Erase(std::vector<Part>::iterator part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<size_t> out_{0};  // parts_.size()
  mutable absl::Mutex mutex_;
  // A few for each worker, so that a linear search is cheap.
  std::vector<Part> parts_ ABSL_GUARDED_BY(mutex_);
  std::vector<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dafs::fuse
