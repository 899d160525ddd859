// A wait of one coroutine that any thread can end: for an event that happens on the thread of
// another worker. The waiter owns a LoopWait and gives its Waker to what reports the event.
// A LoopWait belongs to the thread of its loop. For waits that end on the same thread, see
// runtime/loop/wait_list.h.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/wait_list.h"

namespace dafs {

class LoopWait {
 private:
  struct State {
    explicit State(Loop& loop) : list(loop) {}
    WaitList list;
    bool woken = false;  // since the last wait
  };

 public:
  // Wakes one LoopWait. A value. Any thread may use it, also after the LoopWait is gone: then it
  // does nothing. The loop must exist.
  class Waker {
   public:
    Waker() = default;  // assign one before it is used
    // Posts to the loop, and does not run the coroutine itself.
    void Wake() const;

   private:
    friend class LoopWait;
    Waker(Loop& loop, std::weak_ptr<State> state) : loop_(&loop), state_(std::move(state)) {}

    Loop* loop_ = nullptr;
    std::weak_ptr<State> state_;
  };

  explicit LoopWait(Loop& loop) : loop_(loop), state_(std::make_shared<State>(loop)) {}
  LoopWait(const LoopWait&) = delete;
  LoopWait& operator=(const LoopWait&) = delete;

  Waker waker() const { return Waker(loop_, state_); }

  // `absl::Status status = co_await wait.Wait(deadline);` returns OK when a Waker was used. Returns
  // OK at once if one was used since the last wait. kDeadlineExceeded at `deadline` (a time of
  // Loop::Now), or the status given to End.
  class Waiting;
  Waiting Wait(absl::Time deadline = absl::InfiniteFuture());
  // Resumes the coroutine if it waits now. By the time this returns, the LoopWait may be destroyed.
  void End(const absl::Status& status);

 private:
  Loop& loop_;
  const std::shared_ptr<State> state_;  // owners: this object, and a wake-up while it runs
};

class LoopWait::Waiting : public WaitList::TimedWaiter {
 public:
  Waiting(State& state, absl::Time deadline) : TimedWaiter(state.list, deadline), state_(state) {}
  bool await_ready() { return state_.woken && EndNow(absl::OkStatus()); }
  absl::Status await_resume() {
    state_.woken = false;
    return TimedWaiter::await_resume();
  }

 private:
  State& state_;
};

inline LoopWait::Waiting LoopWait::Wait(absl::Time deadline) { return Waiting(*state_, deadline); }

}  // namespace dafs
