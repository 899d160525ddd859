// Which bytes of which files are written behind: the kernel has its answer, the server has them not
// yet. Whatever could see that they are missing, or must not overtake them, waits here. So it does
// for what a killed program had asked for: the kernel believes that it has ended.
//
// Thread-safe: shared by the workers of a mount, each of which writes and waits. Nothing blocks.
// One mutex for all, taken twice for a write that goes behind, for a short look; whatever else
// workers do takes it only while something is out.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace dafs::fuse {

class BehindTable {
 public:
  // For WhenSettled: of all files.
  static constexpr uint64_t kAnyNode = 0;

  BehindTable() = default;
  BehindTable(const BehindTable&) = delete;
  BehindTable& operator=(const BehindTable&) = delete;

  // Nothing is out, of no file. Spares whoever asks the mutex.
  bool idle() const { return out_.load(std::memory_order_acquire) == 0; }

  // `size` bytes, at least one, from byte `offset` of the file are a part that is out. False: some
  // of them are out already, and the later write must not overtake the earlier.
  bool Begin(uint64_t nodeid, uint64_t offset, uint64_t size) ABSL_LOCKS_EXCLUDED(mutex_);
  // The part that begins at `offset` is `more` bytes longer. False: some of these are out already.
  bool Lengthen(uint64_t nodeid, uint64_t offset, uint64_t more) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server has the part that begins at `offset`, or will never have it. Wakes who waited for
  // it, on this thread.
  void End(uint64_t nodeid, uint64_t offset) ABSL_LOCKS_EXCLUDED(mutex_);

  // All of a file or directory is a part that is out, whatever else of it is. Returns its number,
  // for Release.
  uint64_t Hold(uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has ended. As End.
  void Release(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_);

  bool Holds(uint64_t nodeid) const ABSL_LOCKS_EXCLUDED(mutex_);
  // `then` runs once all parts of the file that are out now have ended, however many follow them;
  // on the thread that ends the last, without a mutex. False: there is none, and it is dropped.
  bool WhenSettled(uint64_t nodeid, absl::AnyInvocable<void()> then) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Part {
    uint64_t nodeid = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t number = 0;  // in the order in which they began
    bool held = false;    // by Hold
  };
  struct Waiter {
    uint64_t nodeid = 0;
    uint64_t last = 0;  // the number of the last part that he waits for
    absl::AnyInvocable<void()> then;
  };

  bool Overlaps(uint64_t nodeid, uint64_t begin, uint64_t end) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsOut(uint64_t nodeid, uint64_t last) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The part that Begin made there.
  std::vector<Part>::iterator Find(uint64_t nodeid, uint64_t offset)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns who waits for nothing any more, to be woken without the mutex.
  std::vector<Waiter> Erase(std::vector<Part>::iterator part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<size_t> out_{0};  // parts_.size()
  mutable absl::Mutex mutex_;
  // A handful for each worker, so that looking through them all is cheap.
  std::vector<Part> parts_ ABSL_GUARDED_BY(mutex_);
  std::vector<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dafs::fuse
