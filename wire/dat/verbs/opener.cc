#include "wire/dat/verbs/opener.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/time/clock.h"

namespace dafs::dat::verbs {
namespace {

// siw waits up to ten seconds while it destroys a half-made connection. The other threads continue
// in the meantime.
constexpr size_t kThreads = 4;
constexpr absl::Duration kAskParkedEvery = absl::Milliseconds(250);

}  // namespace

Opener::~Opener() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void Opener::Run(absl::FunctionRef<void()> call) {
  Job job{.call = call};
  {
    absl::MutexLock lock(&mutex_);
    StartThreads();
    jobs_.push_back(&job);
    mutex_.Await(absl::Condition(&job.done));
  }
  errno = job.error;
}

void Opener::RunForDevices(absl::FunctionRef<void()> call) {
  Job job{.call = call};
  {
    absl::MutexLock lock(&mutex_);
    StartThreads();
    device_jobs_.push_back(&job);
    mutex_.Await(absl::Condition(&job.done));
  }
  errno = job.error;
}

void Opener::StartThreads() {
  if (threads_.empty()) threads_.emplace_back([this] { ServeDevices(); });
  while (threads_.size() < 1 + kThreads) threads_.emplace_back([this] { Serve(); });
}

void Opener::Park(absl::AnyInvocable<bool()> what) {
  absl::MutexLock lock(&mutex_);
  StartThreads();
  if (parked_.empty()) ask_parked_ = absl::Now() + kAskParkedEvery;
  parked_.push_back(std::move(what));
}

// Calls and destroys each function without the lock, because both make system calls.
void Opener::AskParked() {
  std::vector<absl::AnyInvocable<bool()>> asked;
  asked.swap(parked_);
  const bool stopping = stopping_;
  mutex_.Unlock();
  std::erase_if(asked, [stopping](auto& what) { return what() || stopping; });
  mutex_.Lock();
  for (auto& what : asked) parked_.push_back(std::move(what));
  ask_parked_ = absl::Now() + kAskParkedEvery;
}

void Opener::Serve() {
  auto has_job = [this]()
                     ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !jobs_.empty(); };
  auto has_any = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !jobs_.empty() || !parked_.empty();
  };
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(&has_any));
    if (jobs_.empty() && !parked_.empty()) {
      mutex_.AwaitWithDeadline(absl::Condition(&has_job), ask_parked_);
      if (stopping_ || absl::Now() >= ask_parked_) AskParked();
      continue;
    }
    if (jobs_.empty()) return;
    DoFirst(jobs_);
  }
}

void Opener::ServeDevices() {
  auto has_job = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !device_jobs_.empty();
  };
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(&has_job));
    if (device_jobs_.empty()) return;
    DoFirst(device_jobs_);
  }
}

// Makes the call without the lock.
void Opener::DoFirst(std::deque<Job*>& jobs) {
  Job* job = jobs.front();
  jobs.pop_front();
  mutex_.Unlock();
  job->call();
  const int error = errno;
  mutex_.Lock();
  job->error = error;
  job->done = true;
}

std::shared_ptr<ibv_cq> Opener::CoverBadKey(ibv_context* context) {
  constexpr int kPages = 145;
  constexpr int kEntryBytes = 32;
  absl::MutexLock lock(&mutex_);
  std::erase_if(covers_, [](const auto& cover) { return cover.second.expired(); });
  std::shared_ptr<ibv_cq> cover = covers_[context].lock();
  if (cover == nullptr) {
    // Without this queue, siw fails after about thirty connections.
    cover.reset(ibv_create_cq(context, kPages * 4096 / kEntryBytes, nullptr, nullptr, 0),
                [](ibv_cq* cq) {
                  if (cq != nullptr) ibv_destroy_cq(cq);
                });
    covers_[context] = cover;
  }
  return cover;
}

}  // namespace dafs::dat::verbs
