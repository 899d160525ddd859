// The thread that makes and takes the tokens of GSS exchanges: that may wait for key distribution
// centres, and the loops of workers must not. One for a client, started by its first job. Its jobs
// run one after the other, so that they share the tickets that the first one gets.
// Thread-safe.
#pragma once

#include <deque>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "runtime/loop.h"

namespace dafs::client {

class TokenThread {
 public:
  class Job {
   public:
    Job(Loop& loop, absl::AnyInvocable<void()> work, absl::AnyInvocable<void()> done)
        : work_(std::move(work)), done_(std::move(done)), loop_(&loop) {}
    // On the thread of the loop: `done` will not run, and the loop is not used any more. `work` may
    // still be running, so it must own what it uses.
    void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

   private:
    friend class TokenThread;
    static void Run(const std::shared_ptr<Job>& job) ABSL_LOCKS_EXCLUDED(mutex_);

    absl::AnyInvocable<void()> work_;
    absl::AnyInvocable<void()> done_;
    absl::Mutex mutex_;
    Loop* loop_ ABSL_GUARDED_BY(mutex_);  // null: cancelled
  };

  TokenThread() = default;
  // Waits for the job that is running; drops the others.
  ~TokenThread();
  TokenThread(const TokenThread&) = delete;
  TokenThread& operator=(const TokenThread&) = delete;

  // Runs `work` on the thread, then `done` on `loop`.
  std::shared_ptr<Job> Run(Loop& loop, absl::AnyInvocable<void()> work,
                           absl::AnyInvocable<void()> done) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::deque<std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
