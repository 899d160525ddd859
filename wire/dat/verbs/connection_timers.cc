#include "wire/dat/verbs/connection_timers.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace dafs::dat::verbs {
namespace {

// The time that the connection manager has to report why the device flushed work.
constexpr long kBrokenTimeoutNanoseconds = 250'000'000;

bool StartTimer(UniqueFd& timer, const itimerspec& when, int epoll) {
  timer = UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  epoll_event event = {};
  event.events = EPOLLIN;
  return timer.valid() && timerfd_settime(timer.get(), 0, &when, nullptr) == 0 &&
         epoll_ctl(epoll, EPOLL_CTL_ADD, timer.get(), &event) == 0;
}

}  // namespace

bool PeerProbe::Start(int epoll) {
  itimerspec when = {};
  when.it_value = when.it_interval = absl::ToTimespec(every_);
  return StartTimer(timer_, when, epoll);
}

bool PeerProbe::HasExpired() {
  uint64_t times = 0;
  return timer_.valid() && read(timer_.get(), &times, sizeof(times)) > 0;
}

bool BreakWait::Start(int epoll, absl::Status why) {
  why_ = std::move(why);
  itimerspec when = {};
  when.it_value.tv_nsec = kBrokenTimeoutNanoseconds;
  return StartTimer(timer_, when, epoll);
}

bool BreakWait::IsOver() const {
  itimerspec left = {};
  timerfd_gettime(timer_.get(), &left);
  return left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0;
}

}  // namespace dafs::dat::verbs
