#include "server/pool.h"

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
