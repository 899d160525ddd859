#include "runtime/loop/loop.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/check.h"

namespace dafs {
namespace {

// Up to this many sources, a spinning turn polls each source directly. With more, epoll reports
// which are ready, so that a turn makes no system call for each connection, and none that finds no
// work.
constexpr size_t kFewSources = 4;
// Turns between two checks of the CPUs that the thread may use.
constexpr uint32_t kTurnsPerCpuLook = 256;
constexpr absl::Duration kLeastSpin = absl::Microseconds(2);

bool BoundToOneCpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
}

}  // namespace

struct Loop::Source {
  Pollable* pollable = nullptr;  // nullptr: removed, swept at the end of the turn
  WaitHandle registered;         // as registered with epoll
  bool ready = true;             // poll it in the next turn
  bool dirty = true;             // arm it before sleep
};

absl::StatusOr<std::unique_ptr<Loop>> Loop::Create(const Options& options) {
  std::unique_ptr<Loop> loop(new Loop(options));
  loop->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_.valid()) return absl::ErrnoToStatus(errno, "epoll_create1");
  loop->wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wake_.valid()) return absl::ErrnoToStatus(errno, "eventfd");
  loop->timer_ = UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!loop->timer_.valid()) return absl::ErrnoToStatus(errno, "timerfd_create");
  epoll_event woken = {.events = EPOLLIN, .data = {.ptr = nullptr}};
  // Edge-triggered, so that the timer need not be read.
  epoll_event due = {.events = EPOLLIN | EPOLLET, .data = {.ptr = loop.get()}};
  if (epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->wake_.get(), &woken) != 0 ||
      epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->timer_.get(), &due) != 0) {
    return absl::ErrnoToStatus(errno, "epoll_ctl");
  }
  return loop;
}

Loop::Loop(const Options& options)
    : options_(options), spin_(options.max_spin), hold_(options.cpu_latency) {}

Loop::~Loop() = default;

absl::Time Loop::Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

void Loop::Add(Pollable* source) {
  auto entry = std::make_unique<Source>();
  entry->pollable = source;
  sources_.push_back(std::move(entry));
}

void Loop::Remove(Pollable* source) {
  for (auto& entry : sources_) {
    if (entry->pollable != source) continue;
    if (entry->registered.fd >= 0) {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, entry->registered.fd, nullptr);
    }
    entry->pollable = nullptr;
    removed_any_ = true;
    if (!polling_) SweepRemoved();
    return;
  }
}

void Loop::SweepRemoved() {
  if (!std::exchange(removed_any_, false)) return;
  std::erase_if(sources_, [](const auto& entry) { return entry->pollable == nullptr; });
}

void Loop::RequestPoll(Pollable* source) {
  for (auto& entry : sources_) {
    if (entry->pollable == source) entry->ready = entry->dirty = true;
  }
}

Loop::TimerId Loop::RunAfter(absl::Duration delay, absl::AnyInvocable<void()> function) {
  TimerId id = next_timer_++;
  timers_.emplace(Now() + delay, std::pair(id, std::move(function)));
  return id;
}

void Loop::Cancel(TimerId id) {
  auto it = std::find_if(timers_.begin(), timers_.end(),
                         [id](const auto& timer) { return timer.second.first == id; });
  if (it != timers_.end()) timers_.erase(it);
}

Task<void> Loop::Sleep(absl::Duration delay) {
  Pending<bool> over;
  RunAfter(delay, [&over] { over.Set(true); });
  co_await over;
}

void Loop::Post(absl::AnyInvocable<void()> function) {
  {
    absl::MutexLock lock(&mutex_);
    posted_.push_back(std::move(function));
    has_posted_ = true;
  }
  if (asleep_) {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(wake_.get(), &one, sizeof(one));
  }
}

void Loop::Stop() {
  stop_ = true;
  Post([] {});
}

void Loop::Run() {
  while (!stop_) RunOnce(absl::InfiniteDuration());
  stop_ = false;
}

void Loop::RunOnce(absl::Duration max_sleep) {
  const bool spins = Spins();
  bool progress = RunPosted();
  progress |= RunTimers();
  progress |= PollSources(spins);
  if (progress) NoteTurn();
  if (progress || stop_) return;
  if (max_sleep > absl::ZeroDuration() && spins && Spin()) return;
  if (!ArmSources()) return;
  Wait(max_sleep);
}

bool Loop::Turn() {
  bool progress = RunPosted();
  progress |= RunTimers();
  progress |= PollSources(true);
  return progress;
}

bool Loop::RunPosted() {
  if (!has_posted_) return false;
  std::vector<absl::AnyInvocable<void()>> functions;
  {
    absl::MutexLock lock(&mutex_);
    functions.swap(posted_);
    has_posted_ = false;
  }
  for (auto& function : functions) function();
  return true;
}

bool Loop::RunTimers() {
  if (timers_.empty()) return false;
  absl::Time now = Now();
  bool ran = false;
  while (!timers_.empty() && timers_.begin()->first <= now) {
    auto function = std::move(timers_.begin()->second.second);
    timers_.erase(timers_.begin());
    function();
    ran = true;
  }
  return ran;
}

bool Loop::PollSources(bool all) {
  bool progress = false;
  polling_ = true;
  // By index up to a fixed count: Poll may add sources, which wait for the next turn.
  const size_t count = sources_.size();
  for (size_t i = 0; i < count; ++i) {
    Source& source = *sources_[i];
    if (source.pollable == nullptr || !(all || source.ready)) continue;
    bool did = source.pollable->Poll();
    if (source.pollable == nullptr) {
      progress = true;
      continue;
    }
    source.ready = false;  // epoll or Arm sets it again if there is more
    source.dirty |= did || !all;
    progress |= did;
  }
  polling_ = false;
  SweepRemoved();
  return progress;
}

void Loop::NoteTurn() {
  if (!hold_.Turned() || !hold_.IsBusy(Now()) || OnOneCpu()) return;
  hold_.Hold();
  RunAfter(CpuLatencyRequest::kLook, [this] { LookAtHold(); });
}

void Loop::LookAtHold() {
  cpu_looks_left_ = 0;
  if (OnOneCpu()) hold_.Release();
  if (hold_.Look()) RunAfter(CpuLatencyRequest::kLook, [this] { LookAtHold(); });
}

// Whether the thread may use only one CPU. The loop and its peers then run in turn.
bool Loop::OnOneCpu() {
  if (cpu_looks_left_-- == 0) {
    cpu_looks_left_ = kTurnsPerCpuLook;
    one_cpu_ = BoundToOneCpu();
  }
  return one_cpu_;
}

// Whether to poll before sleep. Returns false if the peer needs this CPU to reply, if CPUs already
// wake fast, or if polling all sources costs more than epoll.
bool Loop::Spins() {
  if (options_.max_spin <= absl::ZeroDuration() || hold_.holds() || sources_.empty() ||
      sources_.size() > kFewSources) {
    return false;
  }
  return !OnOneCpu();
}

// Polls for a bounded time. Returns true if there was work. The time doubles after a spin that
// found work and halves after one that did not. An idle mount therefore costs no CPU, and a busy
// one needs no wake-ups.
bool Loop::Spin() {
  absl::Time end = Now() + spin_;
  do {
    if (RunPosted() || PollSources(true)) {
      NoteTurn();
      spin_ = std::min(options_.max_spin, spin_ * 2);
      return true;
    }
  } while (Now() < end && !stop_);
  spin_ = std::max(std::min(kLeastSpin, options_.max_spin), spin_ / 2);
  return false;
}

bool Loop::ArmSources() {
  bool few = sources_.size() <= kFewSources;
  for (auto& entry : sources_) {
    // With few sources, arming all of them is cheaper than requiring RequestPoll each time one
    // source's Poll gives work to another.
    if (!few && !entry->dirty) continue;
    WaitHandle handle = entry->pollable->Arm();
    if (handle.fd < 0) {
      entry->ready = true;
      return false;
    }
    entry->dirty = false;
    WaitHandle& known = entry->registered;
    if (handle.fd == known.fd && handle.events == known.events) continue;
    epoll_event event = {.events = handle.events, .data = {.ptr = entry.get()}};
    if (known.fd >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, known.fd, nullptr);
    int added = epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, handle.fd, &event);
    DAFS_CHECK(added == 0, "a source armed an fd that epoll refuses");
    known = handle;
  }
  return true;
}

// Ensures that the loop does not sleep beyond `time`. The timer may still be set to an earlier
// time, of a timer cancelled since. The resulting empty turn costs less than setting the timer
// before each sleep. It also costs less than a timeout of epoll_wait, for which the kernel starts
// and cancels a timer each time.
void Loop::WakeAt(absl::Time time) {
  if (time >= wakes_at_) return;
  // Zero would stop the timer.
  const absl::Time least = absl::UnixEpoch() + absl::Nanoseconds(1);
  itimerspec at = {.it_interval = {}, .it_value = absl::ToTimespec(std::max(time, least))};
  const int set = timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
  DAFS_CHECK(set == 0, "timerfd_settime refuses the time of a timer");
  wakes_at_ = time;
}

void Loop::Wait(absl::Duration max_sleep) {
  int timeout_ms = -1;
  if (max_sleep <= absl::ZeroDuration()) {
    timeout_ms = 0;
  } else {
    if (!timers_.empty()) WakeAt(timers_.begin()->first);
    if (max_sleep < absl::InfiniteDuration()) WakeAt(Now() + max_sleep);
  }
  epoll_event events[64];
  asleep_ = true;
  // Post sets has_posted_ and then reads asleep_. This thread sets asleep_ and then reads
  // has_posted_. So at least one of the two sees the other's store.
  if (has_posted_ || stop_) timeout_ms = 0;
  int count = epoll_wait(epoll_.get(), events, 64, timeout_ms);
  asleep_ = false;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == nullptr) {
      uint64_t drained;
      [[maybe_unused]] ssize_t got = read(wake_.get(), &drained, sizeof(drained));
    } else if (events[i].data.ptr == this) {
      wakes_at_ = absl::InfiniteFuture();
    } else {
      static_cast<Source*>(events[i].data.ptr)->ready = true;
    }
  }
}

}  // namespace dafs
