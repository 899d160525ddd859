// A wait for a lock that another owner holds. It retries the lock request after pauses, and at once
// when this client releases a conflicting lock. If the server announces when the lock is free, the
// pauses are long. The wait ends early when it is cancelled.
// Spec: 4.4.1.2 (blocking locks: the client polls; nothing waits at the server); WIRE 9.6
// (BC_LOCK_FREE, private).
// Belongs to the thread of its loop. Any thread may use the waker.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/doubling_pause.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/loop_wait.h"
#include "runtime/loop/task.h"

namespace dafs::client {

class LockWait {
 public:
  // The pause between two requests grows from kPauseLeast to kPauseMost. The server keeps a
  // waiter's place for two seconds (server/store/holdings/locks/lock_table.h).
  static constexpr absl::Duration kPauseLeast = absl::Milliseconds(1);
  static constexpr absl::Duration kPauseMost = absl::Milliseconds(100);
  // The pause before the next request to the server, in case its announcement was lost. The server
  // keeps such a waiter's place three times as long.
  static constexpr absl::Duration kAnnouncedPause = absl::Seconds(5);

  // Calls `process` once, when a lock request has to wait; it returns LockOwner::process for this
  // wait.
  LockWait(Loop& loop, std::function<uint64_t()> process)
      : wait_(loop), process_(std::move(process)) {}
  LockWait(const LockWait&) = delete;
  LockWait& operator=(const LockWait&) = delete;

  // The lock is no longer wanted: the wait ends as soon as the server has answered the last
  // request.
  void Cancel() {
    cancelled_ = true;
    wait_.End(absl::OkStatus());
  }
  bool cancelled() const { return cancelled_; }

  // For Files.
  uint64_t Process() { return process_ ? process_() : 0; }
  // Waits until the next request is due. `announced`: the server will announce it.
  Task<absl::Status> Pause(bool announced);
  // Ends everything: Pause returns `why`. The wait may be gone when this returns.
  void End(const absl::Status& why) { wait_.End(why); }
  LoopWait::Waker waker() const { return wait_.waker(); }

 private:
  LoopWait wait_;
  bool cancelled_ = false;
  std::function<uint64_t()> process_;
  DoublingPause pause_{kPauseLeast, kPauseMost};
};

}  // namespace dafs::client
