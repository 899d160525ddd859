#include "server/session/transfer/rdma_credits.h"

#include <utility>

#include "absl/status/status.h"

namespace dafs::server {

bool RdmaCredits::TryTake(uint32_t count) {
  if (!line_.empty() || free_ < count) return false;
  free_ -= count;
  return true;
}

void RdmaCredits::Taking::await_suspend(std::coroutine_handle<> handle) {
  Waiter::await_suspend(handle);
  credits_.line_.Add(*this);
}

void RdmaCredits::Return(uint32_t count) {
  free_ += count;
  while (!line_.empty() && line_.first()->count_ <= free_) {
    Taking& next = *line_.first();
    free_ -= next.count_;
    line_.Wake(next, absl::OkStatus());
  }
}

void RdmaWork::Completed(bool ok) {
  failed |= !ok;
  if (--pending == 0 && waiter) std::exchange(waiter, nullptr).resume();
}

}  // namespace dafs::server
