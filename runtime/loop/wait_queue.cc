#include "runtime/loop/wait_queue.h"

#include "runtime/check.h"

namespace dafs {

WaiterLinks::~WaiterLinks() {
  DAFS_CHECK(first_ == nullptr, "a coroutine still waits in a queue that is destroyed");
}

size_t WaiterLinks::size() const {
  size_t count = 0;
  for (const Waiter* waiter = first_; waiter != nullptr; waiter = waiter->next_) ++count;
  return count;
}

void WaiterLinks::Add(Waiter& waiter) {
  waiter.number_ = ++added_;
  waiter.prev_ = last_;
  (last_ != nullptr ? last_->next_ : first_) = &waiter;
  last_ = &waiter;
}

void WaiterLinks::Wake(Waiter& waiter, absl::Status status) {
  (waiter.prev_ != nullptr ? waiter.prev_->next_ : first_) = waiter.next_;
  (waiter.next_ != nullptr ? waiter.next_->prev_ : last_) = waiter.prev_;
  waiter.next_ = waiter.prev_ = nullptr;
  waiter.status_ = std::move(status);
  waiter.woken_ = true;
  if (waiter.handle_) waiter.handle_.resume();
}

void WaiterLinks::WakeAll(const absl::Status& status) {
  // A coroutine that waits again during this call has a higher number. A resumed coroutine may call
  // WakeAll too.
  const uint64_t last = added_;
  while (first_ != nullptr && first_->number_ <= last) Wake(*first_, status);
}

}  // namespace dafs
