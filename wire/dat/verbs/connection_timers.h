// The timers of a verbs connection. Each is a descriptor that the endpoint's epoll watches.
// Not thread-safe; nothing blocks.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"

namespace dafs::dat::verbs {

// Finds out when nothing has arrived from the peer for a while.
class PeerProbe {
 public:
  explicit PeerProbe(absl::Duration every) : every_(every) {}

  // Starts the timer. Returns false with errno if the system refuses it.
  bool Start(int epoll);
  void Stop() { timer_ = UniqueFd(); }
  // Whether the timer has expired since the last call.
  bool HasExpired();

  // A work completion has arrived.
  void Heard() { heard_ = true; }
  // Whether one has since the last call.
  bool TakeHeard() { return std::exchange(heard_, false); }

 private:
  const absl::Duration every_;
  UniqueFd timer_;
  bool heard_ = false;
};

// The device has flushed work. The connection manager has a moment to report the reason.
class BreakWait {
 public:
  // Starts to wait. `why` is the reason if none is reported. Returns false if the system refuses
  // the timer.
  bool Start(int epoll, absl::Status why);
  void Stop() { timer_ = UniqueFd(); }
  // Whether the moment is over. Call after Start.
  bool IsOver() const;
  const absl::Status& why() const { return why_; }

 private:
  absl::Status why_;
  UniqueFd timer_;
};

}  // namespace dafs::dat::verbs
