#include "client/recovery/calls/retry_pause.h"

#include <utility>

#include "client/session/session_keeper.h"
#include "runtime/loop/loop.h"
#include "runtime/status_macros.h"

namespace dafs::client {

bool RetryPause::IsTooLate(absl::Time deadline) const {
  return Loop::Now() + delay_.next() > deadline;
}

Task<absl::Status> RetryPause::Wait(std::string what) {
  if (!wait_.has_value()) wait_.emplace(wait_tracker_, std::move(what));
  wait_tracker_.LogLong(Loop::Now());
  Task<absl::Status> pause = session_keeper_.Pause(delay_.next());
  CO_RETURN_IF_ERROR(co_await pause);
  delay_.Grow();
  co_return absl::OkStatus();
}

}  // namespace dafs::client
