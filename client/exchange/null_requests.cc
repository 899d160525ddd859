#include "client/exchange/null_requests.h"

#include <utility>

namespace dafs::client {

void NullRequests::Probe() {
  if (!std::exchange(probing_, true)) Start(SendProbe());
}

Task<void> NullRequests::SendProbe() {
  Task<absl::Status> sending = Send();
  absl::Status ignored = co_await sending;
  probing_ = false;
}

void NullRequests::ReturnCredits() {
  if (link_.state() != Link::State::kUp || returning_ || !slots_.credits().above_target() ||
      slots_.taken() > 0) {
    return;
  }
  returning_ = true;
  Start(SendUntilAtTarget());
}

Task<void> NullRequests::SendUntilAtTarget() {
  while (link_.state() == Link::State::kUp && slots_.credits().above_target() &&
         !slots_.has_waiters()) {
    Task<absl::Status> sending = Send();
    absl::Status status = co_await sending;
    if (!status.ok()) break;
  }
  returning_ = false;
}

Task<absl::Status> NullRequests::Send() {
  Call<wire::NullArgs> null;
  CallBase* const chain[] = {&null};
  Task<absl::Status> task = run_(chain);
  absl::Status status = co_await task;
  co_return status;
}

}  // namespace dafs::client
