#include "server/store/openings.h"

#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "runtime/log.h"

namespace dafs::server {

Openings::~Openings() {
  End();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

absl::Status Openings::Start(std::function<absl::Status(size_t)> open, absl::Duration within,
                             absl::Duration retry) {
  open_ = std::move(open);
  retry_ = retry;
  count_.store(is_opening_.size(), std::memory_order_release);
  for (std::atomic<bool>& each : is_opening_) each.store(true, std::memory_order_release);
  {
    absl::MutexLock lock(&mutex_);
    running_ = is_opening_.size();
  }
  for (size_t i = 0; i < is_opening_.size(); ++i) threads_.emplace_back([this, i] { Run(i); });
  Await(absl::Now() + within);
  {
    absl::MutexLock lock(&mutex_);
    has_started_ = true;
    for (const absl::Status& error : errors_) {
      if (!error.ok()) return error;
    }
  }
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (!IsOpening(i)) threads_[i].join();  // has ended; frees its stack
  }
  return absl::OkStatus();
}

void Openings::End() {
  absl::MutexLock lock(&mutex_);
  ends_ = true;
}

void Openings::Run(size_t export_index) {
  std::string logged;
  for (;;) {
    const absl::Status status = open_(export_index);
    absl::MutexLock lock(&mutex_);
    errors_[export_index] = status;
    if (!status.ok() && has_started_) {
      if (logged != status.message()) {
        logged = std::string(status.message());
        LogError(logged + "; its clients wait until that is mended");
      }
      if (!mutex_.AwaitWithTimeout(absl::Condition(&ends_), retry_)) continue;
    }
    if (status.ok()) {
      is_opening_[export_index].store(false, std::memory_order_release);
      count_.fetch_sub(1, std::memory_order_release);
    }
    --running_;
    return;
  }
}

bool Openings::Await(absl::Time deadline) const {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(this, &Openings::none), deadline);
}

}  // namespace dafs::server
