#include "client/files/opens/lock_wait.h"

#include <algorithm>

namespace dafs::client {

Task<absl::Status> LockWait::Pause(bool announced) {
  if (cancelled_) co_return absl::OkStatus();
  const absl::Time until = Loop::Now() + (announced ? kAnnouncedPause : pause_);
  absl::Status status = co_await wait_.Wait(until);
  if (absl::IsDeadlineExceeded(status)) {
    if (!announced) pause_ = std::min(pause_ * 2, kPauseMost);
    co_return absl::OkStatus();
  }
  pause_ = kPauseLeast;
  co_return status;
}

}  // namespace dafs::client
