// Owned descriptors of the iwarp provider: sockets with the options every connection has, and the
// timer that wakes a sleeper for a deadline. Not thread-safe.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wire/dat/address.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::dat::iwarp {

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~OwnedFd() { Reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void Reset();

 private:
  int fd_ = -1;
};

// A non-blocking TCP socket of `family`. kUnavailable, kResourceExhausted.
absl::StatusOr<OwnedFd> NewTcpSocket(int family);

// Small messages at once, and a dead peer noticed within `options.dead_peer_timeout`.
void SetConnectionOptions(int fd, const IwarpOptions& options);

// For a connection that is made. One that never leaves this machine has no congestion to control,
// and what paces it all the same (bbr) takes a quarter of its bandwidth: it gets "reno", which is
// always there. Elsewhere the system's choice holds.
void ChooseCongestionControl(int fd);

// Closes the connection with a reset instead of an orderly end, when `fd` is closed.
void ResetOnClose(int fd);

// Ends the connection of `fd` now, but keeps the number taken and quiet, as a sleeper may still
// have it armed (wire/dat/dat.h: an endpoint is removed from its loop before it is destroyed).
void CloseKeepingNumber(int fd);

// A descriptor that is readable when another one is ready for `events` or a deadline has come.
class DeadlineWait {
 public:
  // kResourceExhausted: no more descriptors.
  absl::Status Open();
  bool is_open() const { return static_cast<bool>(epoll_); }
  int fd() const { return epoll_.get(); }
  void SetDeadline(absl::Duration from_now);
  void ClearDeadline();
  // Watches `fd` too, once; `events` as of epoll(7).
  void Watch(int fd, uint32_t events);
  void Change(int fd, uint32_t events);
  void Forget(int fd);

 private:
  OwnedFd epoll_;
  OwnedFd timer_;
};

// Monotonic.
absl::Time MonotonicNow();

}  // namespace dafs::dat::iwarp
