#include "client/files/opens/lock_wait.h"

namespace dafs::client {

Task<absl::Status> LockWait::Pause(bool announced) {
  if (cancelled_) co_return absl::OkStatus();
  const absl::Time until = Loop::Now() + (announced ? kAnnouncedPause : pause_.next());
  absl::Status status = co_await wait_.Wait(until);
  if (absl::IsDeadlineExceeded(status)) {
    if (!announced) pause_.Grow();
    co_return absl::OkStatus();
  }
  pause_.Reset();
  co_return status;
}

}  // namespace dafs::client
