// The pauses of one operation between its retries, while the server asks it to wait. They grow, and
// dafsctl and the log show a long wait.
// Belongs to the thread of its loop. Lives in the frame of the operation.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/recovery/calls/server_delay.h"
#include "client/recovery/calls/wait_tracker.h"
#include "runtime/doubling_pause.h"
#include "runtime/loop/task.h"

namespace dafs::client {

class SessionKeeper;

class RetryPause {
 public:
  // Both must outlive this.
  RetryPause(SessionKeeper& session_keeper, WaitTracker& wait_tracker,
             DoublingPause delay = ServerDelay())
      : session_keeper_(session_keeper), wait_tracker_(wait_tracker), delay_(delay) {}
  RetryPause(const RetryPause&) = delete;
  RetryPause& operator=(const RetryPause&) = delete;

  // Whether the next pause ends after `deadline`.
  bool IsTooLate(absl::Time deadline) const;
  // Waits. The first call records `what` as the reason, for as long as this exists. kCancelled: the
  // mount ends.
  Task<absl::Status> Wait(std::string what);

 private:
  SessionKeeper& session_keeper_;
  WaitTracker& wait_tracker_;
  DoublingPause delay_;
  std::optional<WaitTracker::Wait> wait_;
};

}  // namespace dafs::client
