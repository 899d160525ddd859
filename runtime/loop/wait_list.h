// A list of coroutines that wait for an event or until a deadline: for a session, or for the end of
// a DELAY. Belongs to the thread of its loop. Meant for rare waits, because a wait with a deadline
// costs a timer; without one, see runtime/loop/wait_queue.h.
#pragma once

#include <coroutine>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/wait_queue.h"

namespace dafs {

class WaitList {
 public:
  explicit WaitList(Loop& loop) : loop_(loop) {}  // no coroutine may be waiting at the end

  // `absl::Status status = co_await list.Wait(deadline);` returns OK or the status given to
  // WakeAll. Returns kDeadlineExceeded at `deadline` (a time of Loop::Now). Always suspends, even
  // if the deadline is past.
  class TimedWaiter;
  TimedWaiter Wait(absl::Time deadline);

  // Resumes all coroutines that wait now, before it returns.
  void WakeAll(const absl::Status& status) { queue_.WakeAll(status); }
  bool empty() const { return queue_.empty(); }

 private:
  Loop& loop_;
  WaitQueue<TimedWaiter> queue_;
};

class WaitList::TimedWaiter : public Waiter {
 public:
  TimedWaiter(WaitList& list, absl::Time deadline) : list_(list), deadline_(deadline) {}
  void await_suspend(std::coroutine_handle<> handle);
  absl::Status await_resume();

 private:
  WaitList& list_;
  const absl::Time deadline_;
  Loop::TimerId timer_ = 0;
};

}  // namespace dafs
