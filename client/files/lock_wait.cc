#include "client/files/lock_wait.h"

#include <algorithm>

namespace dafs::client {

Task<absl::Status> LockWait::Pause() {
  if (std::exchange(state_->woken, false)) {
    pause_ = kPauseLeast;
    co_return absl::OkStatus();
  }
  if (state_->cancelled) co_return absl::OkStatus();
  const absl::Time until = Loop::Now() + pause_;
  pause_ = std::min(pause_ * 2, kPauseMost);
  absl::Status status = co_await state_->list.Wait(until);
  if (std::exchange(state_->woken, false)) pause_ = kPauseLeast;
  if (absl::IsDeadlineExceeded(status)) status = absl::OkStatus();
  co_return status;
}

std::function<void()> LockWait::Waker() {
  return [&loop = loop_, weak = std::weak_ptr<State>(state_)] {
    loop.Post([weak] {
      std::shared_ptr<State> state = weak.lock();
      if (state == nullptr) return;
      state->woken = true;
      state->list.WakeAll(absl::OkStatus());
    });
  };
}

}  // namespace dafs::client
