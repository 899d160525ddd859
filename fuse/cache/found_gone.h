// Who was told by ESTALE that what he opens is no longer where the kernel has found it. The kernel
// walks the path once more then, asking for each name, and hands on a second ESTALE. So who comes
// back with what he has just looked up has it by a name that leads there, and who comes back with
// the same file has it without one (/proc/self/fd): both are let in.
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

class FoundGone {
 public:
  // He comes back at once, but for what the server needs for the path.
  static constexpr absl::Duration kFor = absl::Seconds(30);
  static constexpr size_t kMost = 4096;

  FoundGone() = default;
  FoundGone(const FoundGone&) = delete;
  FoundGone& operator=(const FoundGone&) = delete;

  // `thread` opens `nodeid`: whether it comes back with that. Its mark is gone then, whatever it
  // opens.
  bool ComesBack(uint32_t thread, uint64_t nodeid, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has looked a name up, which led to `nodeid`; 0: to nothing, which ends its walk.
  void Finds(uint32_t thread, uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_);
  // It is told so of `nodeid`.
  void Tell(uint32_t thread, uint64_t nodeid, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Mark {
    uint64_t nodeid = 0;
    absl::Time at;
  };
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint32_t, Mark> marks_ ABSL_GUARDED_BY(mutex_);  // by thread
  // marks_.size(): spares the mutex where there are none. Publishes nothing: a thread that comes
  // back has been told by one that has counted it.
  std::atomic<size_t> count_{0};
};

}  // namespace dafs::fuse
