#include "server/store/openings.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "runtime/log.h"

namespace dafs::server {
namespace {

// What several threads open. Shared with them: one whose file system hangs ends later.
class OpenGroup {
 public:
  explicit OpenGroup(size_t count) : left_(count) {}

  void Done(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --left_;
    first_error_.Update(status);
  }
  // nullopt: some are not done.
  std::optional<absl::Status> Await(absl::Duration within) ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return left_ == 0; };
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&done), within)) return std::nullopt;
    return first_error_;
  }

 private:
  absl::Mutex mutex_;
  size_t left_ ABSL_GUARDED_BY(mutex_);
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

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

std::optional<absl::Status> Openings::OpenMore(const std::vector<size_t>& exports,
                                               std::function<absl::Status(size_t)> open,
                                               absl::Duration within) {
  const auto group = std::make_shared<OpenGroup>(exports.size());
  const size_t before = threads_.size();
  for (const size_t i : exports) {
    {
      absl::MutexLock lock(&mutex_);
      ++running_;
    }
    threads_.emplace_back([this, group, open, i] {
      group->Done(open(i));
      absl::MutexLock lock(&mutex_);
      --running_;
    });
  }
  const std::optional<absl::Status> opened = group->Await(within);
  if (!opened) return std::nullopt;
  for (size_t i = before; i < threads_.size(); ++i) threads_[i].join();
  threads_.resize(before);
  return opened;
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
