// The event loop of a worker. It polls a few sources (a connection, /dev/fuse), runs timers and
// posted functions, spins for a bounded, adaptive time, and then sleeps in one epoll_wait. A Loop
// and everything given to it belong to the thread that runs it. Other threads may call only Post
// and Stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "runtime/loop/cpu_latency_request.h"
#include "runtime/loop/task.h"
#include "runtime/loop/wait_handle.h"

namespace dafs {

// A source of work for a loop.
class Pollable {
 public:
  virtual ~Pollable() = default;
  // Does all work that is possible now without blocking. Returns true if it did any.
  virtual bool Poll() = 0;
  // Returns the descriptor to wait on. The loop calls it before it sleeps, also after a Poll that
  // returned true. The descriptor must be ready as long as a Poll would find work. fd < 0: the loop
  // polls again instead of sleeping.
  virtual WaitHandle Arm() = 0;
};

class Loop {
 public:
  struct Options {
    // The longest spin before sleep; the actual spin adapts below it. A thread bound to one CPU
    // does not spin, because spinning would only keep the peer from running.
    absl::Duration max_spin = absl::Microseconds(50);
    // Requested while the loop is busy. The loop then does not spin, because a sleeper wakes as
    // fast and leaves its CPU to other threads. Null: none. Borrowed; must outlive the loop.
    CpuLatency* cpu_latency = nullptr;
  };
  static absl::StatusOr<std::unique_ptr<Loop>> Create(const Options& options);
  static absl::StatusOr<std::unique_ptr<Loop>> Create() { return Create(Options()); }
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // `source` stays the caller's. Remove it before the fd that it armed is closed. Remove is allowed
  // at any time, also from within the source's own Poll.
  void Add(Pollable* source);
  void Remove(Pollable* source);
  // Call this after giving work to `source` outside its own Poll (for example a post that may have
  // to wait for a writable socket). The loop then polls and arms `source` again before it sleeps.
  void RequestPoll(Pollable* source);

  using TimerId = uint64_t;
  // Runs `function` once, `delay` from now, unless cancelled. The id is never zero.
  TimerId RunAfter(absl::Duration delay, absl::AnyInvocable<void()> function);
  void Cancel(TimerId id);  // unknown and past ids are ignored
  // For coroutines: `co_await loop.Sleep(d)`.
  Task<void> Sleep(absl::Duration delay);

  // Runs `function` on the loop's thread. Any thread may call it. A function posted after the loop
  // has ended is dropped.
  void Post(absl::AnyInvocable<void()> function) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs until Stop(). May be called again after it returned.
  void Run();
  // Runs one turn. Sleeps at most `max_sleep` if there is no work.
  void RunOnce(absl::Duration max_sleep);
  // Runs one turn that polls every source, and neither sleeps nor calls epoll. Returns true if
  // there was any work.
  bool Turn();
  void Stop();  // from any thread

  // The current monotonic time, for deadlines. Comparable only with other values of Now.
  static absl::Time Now();

 private:
  struct Source;
  explicit Loop(const Options& options);

  bool RunPosted() ABSL_LOCKS_EXCLUDED(mutex_);
  bool RunTimers();
  bool PollSources(bool all);
  void NoteTurn();
  void LookAtHold();
  bool OnOneCpu();
  bool Spins();
  bool Spin();
  bool ArmSources();  // false: a source has to be polled again
  void WakeAt(absl::Time time);
  void Wait(absl::Duration max_sleep);
  void SweepRemoved();

  UniqueFd epoll_;
  UniqueFd wake_;
  UniqueFd timer_;
  absl::Time wakes_at_ = absl::InfiniteFuture();  // the time timer_ is set to
  Options options_;
  absl::Duration spin_;   // the current length of a spin
  bool one_cpu_ = false;  // as last checked; checked again when cpu_looks_left_ reaches 0
  uint32_t cpu_looks_left_ = 0;
  CpuLatencyRequest hold_;
  std::vector<std::unique_ptr<Source>> sources_;
  bool removed_any_ = false;
  bool polling_ = false;
  std::multimap<absl::Time, std::pair<TimerId, absl::AnyInvocable<void()>>> timers_;
  TimerId next_timer_ = 1;

  absl::Mutex mutex_;
  std::vector<absl::AnyInvocable<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  // Whether posted_ may hold a function: lets a turn skip the mutex.
  std::atomic<bool> has_posted_{false};
  std::atomic<bool> asleep_{false};  // set before the last check of has_posted_, see Wait
  std::atomic<bool> stop_{false};    // set by Stop, cleared when Run returns
};

}  // namespace dafs
