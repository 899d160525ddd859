// A wait for a lock that another owner holds. It retries the lock request after pauses, and at once
// when this client releases a conflicting lock. It ends early when it is cancelled.
// Spec: 4.4.1.2 (blocking locks: the client polls; nothing waits at the server).
// Belongs to the thread of its loop. Any thread may call the function that Waker returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/loop.h"
#include "runtime/task.h"
#include "runtime/wait_list.h"

namespace dafs::client {

class LockWait {
 public:
  // The pause between two requests grows from kPauseLeast to kPauseMost. The server keeps a
  // waiter's place for two seconds (server/store/holdings/lock_table.h).
  static constexpr absl::Duration kPauseLeast = absl::Milliseconds(1);
  static constexpr absl::Duration kPauseMost = absl::Milliseconds(100);

  // Calls `process` once, when a lock request has to wait; it returns LockOwner::process for this
  // wait.
  LockWait(Loop& loop, std::function<uint64_t()> process)
      : loop_(loop), state_(std::make_shared<State>(loop)), process_(std::move(process)) {}
  LockWait(const LockWait&) = delete;
  LockWait& operator=(const LockWait&) = delete;

  // The lock is no longer wanted: the wait ends as soon as the server has answered the last
  // request.
  void Cancel() {
    const std::shared_ptr<State> state = state_;  // the wait may end in WakeAll
    state->cancelled = true;
    state->list.WakeAll(absl::OkStatus());
  }
  bool cancelled() const { return state_->cancelled; }

  // For Files.
  uint64_t Process() { return process_ ? process_() : 0; }
  // Waits until the next request is due.
  Task<absl::Status> Pause();
  // Ends everything: Pause returns `why`.
  void End(const absl::Status& why) {
    const std::shared_ptr<State> state = state_;  // the wait may be gone before WakeAll returns
    state->list.WakeAll(why);
  }
  // Returns a function that wakes this wait. It may be called after the wait is gone.
  std::function<void()> Waker();

 private:
  struct State {
    explicit State(Loop& loop) : list(loop) {}
    WaitList list;
    bool cancelled = false;
    bool woken = false;  // since the last request
  };

  Loop& loop_;
  const std::shared_ptr<State> state_;  // owners: the wait, and its waker while it runs
  std::function<uint64_t()> process_;
  absl::Duration pause_ = kPauseLeast;
};

}  // namespace dafs::client
