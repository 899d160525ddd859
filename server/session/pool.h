// The threads for what may wait on a disk: COMMIT, stable writes, reads that are not in the page
// cache, directories. A worker hands such a call over and goes on; what is cached never comes here
// (a hand-over costs tens of microseconds).
// Submit is thread-safe and does not block. The queue is bounded by the requests that sessions have
// outstanding, each of which waits for at most one piece of work.
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
#include "runtime/loop.h"

namespace dafs::server {

class Pool {
 public:
  explicit Pool(uint32_t threads);
  ~Pool();  // runs what was submitted, then joins
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void Submit(absl::AnyInvocable<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for what nobody waits for, a quarter of the threads at most. False, and nothing is
  // done: the pool has other work.
  bool SubmitIdly(absl::AnyInvocable<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until all that was submitted is done; false if some is not at `deadline`.
  bool AwaitIdle(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);
  // What was submitted and is not done.
  size_t unfinished() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> work_ ABSL_GUARDED_BY(mutex_);
  size_t unfinished_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t idle_work_ ABSL_GUARDED_BY(mutex_) = 0;  // of SubmitIdly
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// A pool for each export with a file system that may hang, made when it is first needed: such an
// export keeps the threads of its own pool waiting, and no others. Thread-safe.
class ExportPools {
 public:
  explicit ExportPools(size_t exports) : pools_(exports) {}

  Pool& Of(size_t export_index) ABSL_LOCKS_EXCLUDED(mutex_);
  // The pools that there are, by export; null for the others.
  std::vector<Pool*> pools() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Few: they wait for one file system.
  static constexpr uint32_t kThreads = 4;

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Pool>> pools_ ABSL_GUARDED_BY(mutex_);
};

// `co_await Offload(pool, loop, work)`: runs `work` on a thread of the pool, then goes on upon
// `loop`, whose thread must be the awaiting coroutine's. `work` and what it refers to are locals
// of the awaiting coroutine.
class Offload {
 public:
  Offload(Pool& pool, dat::Loop& loop, absl::FunctionRef<void()> work)
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
  dat::Loop& loop_;
  absl::FunctionRef<void()> work_;
};

// The same if `work` may wait for a disk; if not it runs here and now.
class OffloadIf : public Offload {
 public:
  OffloadIf(bool may_wait, Pool& pool, dat::Loop& loop, absl::FunctionRef<void()> work)
      : Offload(pool, loop, work), may_wait_(may_wait) {}

  bool await_ready() {
    if (!may_wait_) RunHere();
    return !may_wait_;
  }

 private:
  const bool may_wait_;
};

}  // namespace dafs::server
