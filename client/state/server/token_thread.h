// Runs the steps of GSS exchanges on a thread of its own, because they may wait for key
// distribution centres and a worker's loop must not. One for a client, started by a job, and ended
// when it was idle for a while: a process may have thousands of clients. Its jobs run one after the
// other, so that they share the tickets that the first one gets.
//
// Nothing can interrupt a job that waits for a key distribution centre. So the thread may outlive
// this object: it shares the queue, and each job owns what it uses.
// Thread-safe.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"

namespace dafs::client {

class TokenThread {
 public:
  // The longest wait of the destructor. A mount ends within a second, also one with many clients:
  // after a thread was left to itself, none is waited for.
  static constexpr absl::Duration kMostWait = absl::Milliseconds(500);
  // The rounds of an exchange are closer together; renewals are hours apart.
  static constexpr absl::Duration kIdleFor = absl::Seconds(10);

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

  explicit TokenThread(absl::Duration idle_for = kIdleFor) : idle_for_(idle_for) {}
  // Drops the jobs that have not begun. Waits up to kMostWait for the one that runs, then leaves it
  // to its thread.
  ~TokenThread();
  TokenThread(const TokenThread&) = delete;
  TokenThread& operator=(const TokenThread&) = delete;

  // Runs `work` on the thread, then `done` on `loop`.
  std::shared_ptr<Job> Run(Loop& loop, absl::AnyInvocable<void()> work,
                           absl::AnyInvocable<void()> done);

  // Whether a thread of this process was left to itself. Its library must not be unloaded under it:
  // end the process with _exit(2).
  static bool HasLeftThread();

 private:
  // Shared with the thread. Owned by it and by this object.
  struct Queue {
    // Waits for the next job. Null: the thread ends, since none came within `most`, or none is run
    // any more.
    std::shared_ptr<Job> Take(absl::Duration most) ABSL_LOCKS_EXCLUDED(mutex);

    absl::Mutex mutex;
    std::deque<std::shared_ptr<Job>> jobs ABSL_GUARDED_BY(mutex);
    bool is_ending ABSL_GUARDED_BY(mutex) = false;
    bool has_ended ABSL_GUARDED_BY(mutex) = false;  // it takes no job, and joins at once
  };

  const absl::Duration idle_for_;
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::thread thread_ ABSL_GUARDED_BY(queue_->mutex);
};

}  // namespace dafs::client
