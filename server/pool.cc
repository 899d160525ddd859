#include "server/pool.h"

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
  work_.push_back(std::move(work));
}

bool Pool::SubmitIdly(absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || !work_.empty() || idle_work_ >= std::max<size_t>(threads_.size() / 4, 1)) {
    return false;
  }
  ++idle_work_;
  work_.push_back([this, work = std::move(work)]() mutable {
    work();
    absl::MutexLock done(&mutex_);
    --idle_work_;
  });
  return true;
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
  }
}

}  // namespace dafs::server
