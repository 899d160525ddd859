#include "server/session/shared/pool.h"

#include <algorithm>
#include <utility>

namespace dafs::server {

Pool::Pool(uint32_t threads) {
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

Pool::~Pool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void Pool::Submit(absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&mutex_);
  ++unfinished_;
  work_.push_back(std::move(work));
}

bool Pool::SubmitIdly(absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || !work_.empty() || idle_work_ >= std::max<size_t>(threads_.size() / 4, 1)) {
    return false;
  }
  ++idle_work_;
  ++unfinished_;
  work_.push_back([this, work = std::move(work)]() mutable {
    work();
    absl::MutexLock done(&mutex_);
    --idle_work_;
  });
  return true;
}

bool Pool::AwaitIdle(absl::Time deadline) {
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return unfinished_ == 0; };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(&idle), deadline);
}

size_t Pool::unfinished() const {
  absl::MutexLock lock(&mutex_);
  return unfinished_;
}

std::vector<Pool*> ExportPools::pools() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Pool*> result;
  for (const std::unique_ptr<Pool>& pool : pools_) result.push_back(pool.get());
  return result;
}

Pool& ExportPools::Of(size_t export_index) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<Pool>& pool = pools_[export_index];
  if (pool == nullptr) pool = std::make_unique<Pool>(kThreads);
  return *pool;
}

void Pool::Run() {
  auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !work_.empty(); };
  while (true) {
    absl::AnyInvocable<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&due));
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
    absl::MutexLock lock(&mutex_);
    --unfinished_;
  }
}

}  // namespace dafs::server
