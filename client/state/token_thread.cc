#include "client/state/token_thread.h"

#include <utility>

namespace dafs::client {

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
  {
    absl::MutexLock lock(&mutex_);
    is_ending_ = true;
    jobs_.clear();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

std::shared_ptr<TokenThread::Job> TokenThread::Run(Loop& loop, absl::AnyInvocable<void()> work,
                                                   absl::AnyInvocable<void()> done) {
  auto job = std::make_shared<Job>(loop, std::move(work), std::move(done));
  absl::MutexLock lock(&mutex_);
  jobs_.push_back(job);
  if (!thread_.joinable()) thread_ = std::thread([this] { Serve(); });
  return job;
}

void TokenThread::Serve() {
  while (true) {
    std::shared_ptr<Job> job;
    {
      absl::MutexLock lock(&mutex_);
      auto has_work = [this] {
        mutex_.AssertHeld();
        return is_ending_ || !jobs_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      if (is_ending_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    Job::Run(job);
  }
}

}  // namespace dafs::client
