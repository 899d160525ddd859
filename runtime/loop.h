// The loop of a worker: it polls a few sources (a connection, /dev/fuse), runs timers and posted
// functions, spins a bounded, adaptive while, and only then sleeps in one epoll_wait. A Loop and
// everything given to it belong to the thread that runs it; only Post and Stop may be called from
// other threads.
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
#include "runtime/busy_hold.h"
#include "runtime/task.h"
#include "wire/dat/dat.h"

namespace dafs::dat {

// A source of work of a loop.
class Pollable {
 public:
  virtual ~Pollable() = default;
  // Does what can be done now without blocking; true if anything was done.
  virtual bool Poll() = 0;
  // Before sleep, also after a Poll that returned true: what to wait on. The descriptor is ready as
  // long as Poll would find something behind it. fd < 0 asks for another Poll instead of sleep.
  virtual WaitHandle Arm() = 0;
};

class Loop {
 public:
  struct Options {
    // Longest spin before sleep. Adaptive below it; zero on a thread bound to one CPU, where
    // spinning would only keep the peer from running.
    absl::Duration max_spin = absl::Microseconds(50);
    // Held while the loop is busy, and then nothing spins: a sleeper wakes as fast, and its CPU is
    // for others meanwhile. Null: none. Borrowed; outlives the loop.
    CpuLatency* cpu_latency = nullptr;
  };
  static absl::StatusOr<std::unique_ptr<Loop>> Create(const Options& options);
  static absl::StatusOr<std::unique_ptr<Loop>> Create() { return Create(Options()); }
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // `source` stays the caller's. Remove it before the fd it armed is closed; allowed at any time,
  // also from within its own Poll.
  void Add(Pollable* source);
  void Remove(Pollable* source);
  // To be called when work was given to `source` outside its own Poll (a post that may need to wait
  // for a writable socket): it is polled and armed again before the loop sleeps.
  void Touch(Pollable* source);

  using TimerId = uint64_t;
  // Runs `function` once, `delay` from now, unless cancelled. Never zero.
  TimerId RunAfter(absl::Duration delay, absl::AnyInvocable<void()> function);
  void Cancel(TimerId id);  // unknown and past ids are ignored
  // For coroutines: `co_await loop.Sleep(d)`.
  Task<void> Sleep(absl::Duration delay);

  // From any thread: runs `function` on the loop's thread. After the loop has ended it is dropped.
  void Post(absl::AnyInvocable<void()> function) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs until Stop(). May be called again afterwards.
  void Run();
  // One turn; sleeps at most `max_sleep` when there is nothing to do.
  void RunOnce(absl::Duration max_sleep);
  // One turn that neither sleeps nor asks the system what there is to do: every source is polled.
  // True if anything was done.
  bool Turn();
  void Stop();  // from any thread

  // Monotonic time of this loop, for deadlines: comparable with itself only. Read anew on each
  // call.
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
  bool ArmSources();  // false: something asked for another poll
  void WakeAt(absl::Time time);
  void Wait(absl::Duration max_sleep);
  void SweepRemoved();

  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  int timer_fd_ = -1;
  absl::Time wakes_at_ = absl::InfiniteFuture();  // what timer_fd_ is set to
  Options options_;
  absl::Duration spin_;   // the present, adapted window
  bool one_cpu_ = false;  // as of the last look; taken again when cpu_looks_left_ is used up
  uint32_t cpu_looks_left_ = 0;
  BusyHold hold_;
  std::vector<std::unique_ptr<Source>> sources_;
  bool removed_any_ = false;
  bool polling_ = false;
  std::multimap<absl::Time, std::pair<TimerId, absl::AnyInvocable<void()>>> timers_;
  TimerId next_timer_ = 1;

  absl::Mutex mutex_;
  std::vector<absl::AnyInvocable<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  // Whether posted_ may hold something: lets a turn skip the mutex.
  std::atomic<bool> has_posted_{false};
  std::atomic<bool> asleep_{false};  // published before the last look at has_posted_, see Wait
  std::atomic<bool> stop_{false};    // set by Stop, cleared by Run's return
};

}  // namespace dafs::dat
