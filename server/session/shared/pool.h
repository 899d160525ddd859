// The threads for work that may wait for a disk: COMMIT, stable writes, reads that miss the page
// cache, directories. A worker hands such a call over and continues. Cached data never comes here:
// a hand-over costs tens of microseconds.
//
// Submit is thread-safe and does not block. The requests that sessions have outstanding bound the
// queue: each waits for at most one piece of work.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"

namespace dafs::server {

class Pool {
 public:
  explicit Pool(uint32_t threads);
  ~Pool();  // runs the submitted work, then joins
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void Submit(absl::AnyInvocable<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);
  // Submits work without a waiter, for at most a quarter of the threads (at least one). Returns
  // false, and drops `work`, if the pool has other work in its queue or that limit is reached.
  bool SubmitIdly(absl::AnyInvocable<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until all submitted work is done. Returns false if some is not done at `deadline`.
  bool AwaitIdle(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  // The number of submitted and not finished pieces of work.
  size_t unfinished() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> work_ ABSL_GUARDED_BY(mutex_);
  size_t unfinished_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t idle_work_ ABSL_GUARDED_BY(mutex_) = 0;  // submitted by SubmitIdly
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// A pool for each export whose file system may hang, created on first use. Such an export blocks
// only the threads of its own pool. Thread-safe.
class ExportPools {
 public:
  // `capacity`: of the ExportSet.
  explicit ExportPools(size_t capacity) : pools_(capacity) {}

  Pool& Of(size_t export_index) ABSL_LOCKS_EXCLUDED(mutex_);
  // The pools created so far, by export; null for the others.
  std::vector<Pool*> pools() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Few: they wait for one file system.
  static constexpr uint32_t kThreads = 4;

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Pool>> pools_ ABSL_GUARDED_BY(mutex_);
};

// `co_await Offload(pool, loop, work)`: runs `work` on a thread of the pool, then resumes the
// coroutine on `loop`. The thread of `loop` must be that of the coroutine. `work` and everything it
// refers to must live in the coroutine.
class Offload {
 public:
  Offload(Pool& pool, Loop& loop, absl::FunctionRef<void()> work)
      : pool_(pool), loop_(loop), work_(work) {}

  bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    pool_.Submit([this, waiter] {
      work_();
      loop_.Post([waiter] { waiter.resume(); });
    });
  }
  void await_resume() const noexcept {}

 protected:
  void RunHere() { work_(); }

 private:
  Pool& pool_;
  Loop& loop_;
  absl::FunctionRef<void()> work_;
};

// Likewise if `may_wait`; otherwise runs `work` at once on the calling thread.
class OffloadIf : public Offload {
 public:
  OffloadIf(bool may_wait, Pool& pool, Loop& loop, absl::FunctionRef<void()> work)
      : Offload(pool, loop, work), may_wait_(may_wait) {}

  bool await_ready() {
    if (!may_wait_) RunHere();
    return !may_wait_;
  }

 private:
  const bool may_wait_;
};

}  // namespace dafs::server
