// Tracks threads that received ESTALE on open because the kernel found the file under a stale name,
// so that the retry of such a thread is not refused for the same reason.
//
// After the first ESTALE the kernel walks the path again, with a lookup of each name, and opens
// what it finds. It passes a second ESTALE on to the program. A retry opens one of two nodes:
// - the node that the last lookup found: the walk has led there, so the name is valid;
// - the same node, without a lookup: the thread has it without a name (/proc/self/fd).
//
// Thread-safe; nothing blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dafs::fuse {

class StaleOpenTracker {
 public:
  // The retry normally arrives immediately; allow time for the server to resolve the path.
  static constexpr absl::Duration kFor = absl::Seconds(30);
  static constexpr size_t kMost = 4096;

  StaleOpenTracker() = default;
  StaleOpenTracker(const StaleOpenTracker&) = delete;
  StaleOpenTracker& operator=(const StaleOpenTracker&) = delete;

  // `thread` opens `nodeid`. Returns whether this is its retry after ESTALE, which may open the
  // node. Always clears the thread's mark.
  bool IsRetry(uint32_t thread, uint64_t nodeid, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // `thread` has looked up a name, which led to `nodeid`. 0: it led to no node, which ends the
  // thread's walk.
  void NoteLookup(uint32_t thread, uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_);
  // `thread` receives ESTALE for `nodeid`.
  void NoteStale(uint32_t thread, uint64_t nodeid, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Mark {
    uint64_t nodeid = 0;
    absl::Time at;
  };
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint32_t, Mark> marks_ ABSL_GUARDED_BY(mutex_);  // by thread
  // marks_.size(), to avoid the mutex while there are no marks. Publishes nothing: the thread that
  // sent ESTALE to a retrying thread has counted its mark before.
  std::atomic<size_t> count_{0};
};

}  // namespace dafs::fuse
