#include "server/session/transfer/rdma_credits.h"

#include <utility>

namespace dafs::server {

bool RdmaCredits::TryTake(uint32_t count) {
  if (!line_.empty() || free_ < count) return false;
  free_ -= count;
  return true;
}

void RdmaCredits::Waiter::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  credits_.line_.push_back(this);
}

void RdmaCredits::Return(uint32_t count) {
  free_ += count;
  while (!line_.empty() && line_.front()->count_ <= free_) {
    Waiter* next = line_.front();
    line_.pop_front();
    free_ -= next->count_;
    next->waiter_.resume();
  }
}

void RdmaWork::Completed(bool ok) {
  failed |= !ok;
  if (--pending == 0 && waiter) std::exchange(waiter, nullptr).resume();
}

}  // namespace dafs::server
