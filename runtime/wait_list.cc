#include "runtime/wait_list.h"

#include <algorithm>
#include <utility>

#include "runtime/check.h"

namespace dafs::client {

WaitList::~WaitList() {
  DAFS_CHECK(first_ == nullptr, "a coroutine still waits in a list that is destroyed");
}

WaitList::Waiter WaitList::Wait(absl::Time deadline) { return Waiter(*this, deadline); }

void WaitList::Waiter::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  list_.Add(this);
  if (deadline_ == absl::InfiniteFuture()) return;
  absl::Duration delay = std::max(deadline_ - dat::Loop::Now(), absl::ZeroDuration());
  timer_ = list_.loop_.RunAfter(delay, [this] {
    timer_ = 0;
    list_.Remove(this);
    Resume(absl::DeadlineExceededError("the wait reached its deadline"));
  });
}

void WaitList::Waiter::Resume(absl::Status status) {
  if (timer_ != 0) list_.loop_.Cancel(timer_);
  status_ = std::move(status);
  handle_.resume();
}

void WaitList::Add(Waiter* waiter) {
  waiter->number_ = ++added_;
  waiter->prev_ = last_;
  (last_ != nullptr ? last_->next_ : first_) = waiter;
  last_ = waiter;
}

void WaitList::Remove(Waiter* waiter) {
  (waiter->prev_ != nullptr ? waiter->prev_->next_ : first_) = waiter->next_;
  (waiter->next_ != nullptr ? waiter->next_->prev_ : last_) = waiter->prev_;
  waiter->next_ = waiter->prev_ = nullptr;
}

void WaitList::WakeAll(const absl::Status& status) {
  // A coroutine that waits again during this call has a higher number and is not resumed. A resumed
  // coroutine may call WakeAll too.
  const uint64_t last = added_;
  while (first_ != nullptr && first_->number_ <= last) {
    Waiter* waiter = first_;
    Remove(waiter);
    waiter->Resume(status);
  }
}

}  // namespace dafs::client
