#include "wire/dat/iwarp/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "runtime/files/unique_fd.h"

namespace dafs::dat::iwarp {
namespace {

void SetInt(int fd, int level, int option, int value) {
  // Best effort: each option only improves speed or detects a failure sooner.
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

// Calls getsockname(2) or getpeername(2). Returns an empty address if there is none.
template <class Get>
Address AddressBy(Get get, int fd) {
  sockaddr_storage found = {};
  socklen_t size = sizeof(found);
  if (get(fd, reinterpret_cast<sockaddr*>(&found), &size) != 0) return {};
  return {reinterpret_cast<const sockaddr*>(&found), size};
}

}  // namespace

absl::StatusOr<UniqueFd> NewTcpSocket(int family) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "TCP socket");
  return fd;
}

Address LocalAddress(int fd) { return AddressBy(getsockname, fd); }

void SetConnectionOptions(int fd, const IwarpOptions& options) {
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  const int seconds = static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Seconds(options.dead_peer_timeout), 2, 3600));
  SetInt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
  SetInt(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  // The first probe is sent after a third of the time. Two thirds remain for replies.
  SetInt(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 3));
  SetInt(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 3));
  SetInt(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
}

void ChooseCongestionControl(int fd) {
  Address ours = LocalAddress(fd);
  Address theirs = AddressBy(getpeername, fd);
  ours.set_port(0);
  theirs.set_port(0);
  if (ours.size() == 0 || !(ours == theirs || theirs.is_loopback())) return;
  constexpr std::string_view kReno = "reno";
  // Best effort, as above.
  (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
}

void ResetOnClose(int fd) {
  const linger none = {.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

void CloseKeepingNumber(int fd) {
  const UniqueFd quiet(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!quiet.valid() || dup3(quiet.get(), fd, O_CLOEXEC) < 0) shutdown(fd, SHUT_RDWR);
}

absl::Status DeadlineWait::Open() {
  if (is_open()) return absl::OkStatus();
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return absl::ErrnoToStatus(errno, "epoll_create1");
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.valid()) return absl::ErrnoToStatus(errno, "timerfd_create");
  epoll_ = std::move(epoll);
  timer_ = std::move(timer);
  Watch(timer_.get(), EPOLLIN);
  return absl::OkStatus();
}

void DeadlineWait::SetDeadline(absl::Duration from_now) {
  // Zero would disarm the timer.
  const absl::Duration delay = std::max(from_now, absl::Nanoseconds(1));
  itimerspec spec = {};
  spec.it_value = absl::ToTimespec(delay);
  timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

void DeadlineWait::ClearDeadline() {
  const itimerspec none = {};
  timerfd_settime(timer_.get(), 0, &none, nullptr);
}

void DeadlineWait::Watch(int fd, uint32_t events) {
  epoll_event event = {.events = events, .data = {.fd = fd}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void DeadlineWait::Change(int fd, uint32_t events) {
  epoll_event event = {.events = events, .data = {.fd = fd}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void DeadlineWait::Forget(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

absl::Time MonotonicNow() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

}  // namespace dafs::dat::iwarp
