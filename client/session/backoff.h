// The pauses between attempts to connect. Each is random, so that the clients of a restarted server
// do not all reconnect at once, and about twice as long as the one before, up to a limit.
// A value; belongs to one thread.
#pragma once

#include <random>

#include "absl/time/time.h"
#include "runtime/doubling_pause.h"

namespace dafs::client {

class Backoff {
 public:
  Backoff(absl::Duration least, absl::Duration most)
      : limit_(least, most), random_(std::random_device()()) {}

  // The next pause: between half of the present limit and all of it.
  absl::Duration Next();
  // The next pause is short again.
  void Reset() { limit_.Reset(); }

 private:
  DoublingPause limit_;  // the longest that the next pause may be
  std::minstd_rand random_;
};

}  // namespace dafs::client
