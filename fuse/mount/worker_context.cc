#include "fuse/mount/worker_context.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace dafs::fuse {
namespace {

// How long a function posted to a worker's loop may take to run.
constexpr absl::Duration kRunWait = absl::Seconds(10);

}  // namespace

absl::Status WorkerContext::Run(std::function<absl::Status()> function) const {
  struct Answer {
    absl::Notification done;
    absl::Status status;
  };
  // Shared with the loop, which drops the function if the loop has ended.
  auto answer = std::make_shared<Answer>();
  loop->Post([answer, function = std::move(function)] {
    answer->status = function();
    answer->done.Notify();
  });
  if (answer->done.WaitForNotificationWithTimeout(kRunWait)) return answer->status;
  return absl::DeadlineExceededError("the worker does not answer");
}

}  // namespace dafs::fuse
