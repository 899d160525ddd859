#include "client/state/server/token_thread.h"

#include <atomic>
#include <thread>
#include <utility>

namespace dafs::client {
namespace {

std::atomic<bool> has_left_thread{false};  // orders no other memory

}  // namespace

void TokenThread::Job::Cancel() {
  absl::MutexLock lock(&mutex_);
  loop_ = nullptr;
}

void TokenThread::Job::Run(const std::shared_ptr<Job>& job) {
  job->work_();
  absl::MutexLock lock(&job->mutex_);
  if (job->loop_ == nullptr) return;
  job->loop_->Post([job] {
    {
      absl::MutexLock posted(&job->mutex_);
      if (std::exchange(job->loop_, nullptr) == nullptr) return;
    }
    job->done_();
  });
}

TokenThread::~TokenThread() {
  std::thread thread;
  bool joins = true;
  {
    absl::MutexLock lock(&queue_->mutex);
    queue_->is_ending = true;
    queue_->jobs.clear();
    thread = std::move(thread_);
    if (thread.joinable()) {
      joins = queue_->mutex.AwaitWithTimeout(absl::Condition(&queue_->has_ended),
                                             HasLeftThread() ? absl::ZeroDuration() : kMostWait);
    }
  }
  if (!thread.joinable()) return;
  if (joins) {
    thread.join();
  } else {
    has_left_thread.store(true, std::memory_order_relaxed);
    thread.detach();
  }
}

bool TokenThread::HasLeftThread() { return has_left_thread.load(std::memory_order_relaxed); }

std::shared_ptr<TokenThread::Job> TokenThread::Run(Loop& loop, absl::AnyInvocable<void()> work,
                                                   absl::AnyInvocable<void()> done) {
  auto job = std::make_shared<Job>(loop, std::move(work), std::move(done));
  absl::MutexLock lock(&queue_->mutex);
  queue_->jobs.push_back(job);
  if (std::exchange(queue_->has_ended, false)) thread_.join();
  if (!thread_.joinable()) {
    thread_ = std::thread([queue = queue_, most = idle_for_] {
      while (std::shared_ptr<Job> next = queue->Take(most)) Job::Run(next);
    });
  }
  return job;
}

std::shared_ptr<TokenThread::Job> TokenThread::Queue::Take(absl::Duration most) {
  const auto has_work = [this] {
    mutex.AssertHeld();
    return is_ending || !jobs.empty();
  };
  absl::MutexLock lock(&mutex);
  mutex.AwaitWithTimeout(absl::Condition(&has_work), most);
  if (is_ending || jobs.empty()) {
    has_ended = true;
    return nullptr;
  }
  std::shared_ptr<Job> job = std::move(jobs.front());
  jobs.pop_front();
  return job;
}

}  // namespace dafs::client
