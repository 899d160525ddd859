// Waits until each worker has done something.
#pragma once

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dafs::fuse {

// Shared with the workers, because the wait may end first. Thread-safe; only Await blocks.
class Countdown {
 public:
  // `count` calls of Done are awaited.
  explicit Countdown(size_t count) : left_(count) {}
  void Done() {
    absl::MutexLock lock(&mutex_);
    --left_;
  }
  // Returns false if that takes longer than `most`.
  bool Await(absl::Duration most) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(
                                       +[](size_t* left) { return *left == 0; }, &left_),
                                   most);
  }

 private:
  absl::Mutex mutex_;
  size_t left_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
