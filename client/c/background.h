// Turns the loop of a session on a thread of its own while no call of the program runs, so that the
// descriptors of its groups become readable. The program's thread takes the loop for each call and
// lends it afterwards: the loop, and all that belongs to it, is used by one thread at a time.
//
// Take and Lend belong to the thread of the session. Take blocks until the other thread has ended
// its turn, at most as long as a turn takes. A session without descriptors has none of this.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/loop/loop.h"

namespace dafs::c {

class Background {
 public:
  // Starts the thread. The program's thread has the loop. `turned` runs on the other thread, after
  // each of its turns. `loop` outlives this.
  Background(Loop& loop, std::function<void()> turned);
  ~Background();  // while the program's thread has the loop
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void Lend() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class State { kTaken, kLent, kRuns, kEnds };
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  Loop& loop_;
  const std::function<void()> turned_;
  // Read between two turns without the mutex. Orders no other memory: the mutex does.
  std::atomic<bool> wanted_{false};
  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kTaken;
  std::thread thread_;
};

}  // namespace dafs::c
