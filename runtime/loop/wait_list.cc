#include "runtime/loop/wait_list.h"

#include <algorithm>

namespace dafs {

WaitList::TimedWaiter WaitList::Wait(absl::Time deadline) { return TimedWaiter(*this, deadline); }

void WaitList::TimedWaiter::await_suspend(std::coroutine_handle<> handle) {
  Waiter::await_suspend(handle);
  list_.queue_.Add(*this);
  if (deadline_ == absl::InfiniteFuture()) return;
  const absl::Duration delay = std::max(deadline_ - Loop::Now(), absl::ZeroDuration());
  timer_ = list_.loop_.RunAfter(delay, [this] {
    timer_ = 0;
    list_.queue_.Wake(*this, absl::DeadlineExceededError("the wait reached its deadline"));
  });
}

absl::Status WaitList::TimedWaiter::await_resume() {
  if (timer_ != 0) list_.loop_.Cancel(timer_);
  return Waiter::await_resume();
}

}  // namespace dafs
