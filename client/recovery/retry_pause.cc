#include "client/recovery/retry_pause.h"

#include <utility>

#include "client/session/session_keeper.h"
#include "runtime/loop.h"
#include "runtime/status_macros.h"

namespace dafs::client {

bool RetryPause::IsTooLate(absl::Time deadline) const {
  return Loop::Now() + delay_.next() > deadline;
}

Task<absl::Status> RetryPause::Wait(std::string what) {
  if (!note_.has_value()) note_.emplace(waits_, std::move(what));
  waits_.Look(Loop::Now());
  Task<absl::Status> pause = session_keeper_.Pause(delay_.next());
  CO_RETURN_IF_ERROR(co_await pause);
  delay_.Grow();
  co_return absl::OkStatus();
}

}  // namespace dafs::client
