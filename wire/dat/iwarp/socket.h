// Descriptors of the iwarp provider: sockets with the options of every connection, and the
// timer that wakes a sleeper at a deadline. Not thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "wire/dat/address.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::dat::iwarp {

// Makes a non-blocking TCP socket of `family`. Errors: kUnavailable, kResourceExhausted.
absl::StatusOr<UniqueFd> NewTcpSocket(int family);
// The address that a socket is bound to; empty if there is none.
Address LocalAddress(int fd);

// Sends small messages without delay, and detects a dead peer within `options.dead_peer_timeout`.
void SetConnectionOptions(int fd, const IwarpOptions& options);

// Call on a connected socket. A connection within this machine has no congestion to control, and
// pacing (bbr) costs a quarter of its bandwidth. It therefore gets "reno", which every kernel has.
// Other connections keep the system's choice.
void ChooseCongestionControl(int fd);

// Makes the later close of `fd` reset the connection instead of ending it in order.
void ResetOnClose(int fd);

// Ends the connection of `fd` now, but keeps the descriptor number in use and not ready. A sleeper
// may still have it armed (wire/dat/dat.h: an endpoint is removed from its loop before it is
// destroyed).
void CloseKeepingNumber(int fd);

// A descriptor that is readable when another one is ready for `events` or a deadline has passed.
class DeadlineWait {
 public:
  // kResourceExhausted: no more descriptors.
  absl::Status Open();
  bool is_open() const { return epoll_.valid(); }
  int fd() const { return epoll_.get(); }
  void SetDeadline(absl::Duration from_now);
  void ClearDeadline();
  // Also watches `fd`; call once. `events` as in epoll(7).
  void Watch(int fd, uint32_t events);
  void Change(int fd, uint32_t events);
  void Forget(int fd);

 private:
  UniqueFd epoll_;
  UniqueFd timer_;
};

// Monotonic.
absl::Time MonotonicNow();

}  // namespace dafs::dat::iwarp
