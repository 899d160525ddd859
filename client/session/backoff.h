// The pauses between attempts to connect. Each is random, so that the clients of a restarted server
// do not all reconnect at once, and about twice as long as the one before, up to a limit.
// A value; belongs to one thread.
#pragma once

#include <random>

#include "absl/time/time.h"

namespace dafs::client {

class Backoff {
 public:
  Backoff(absl::Duration least, absl::Duration most)
      : least_(least), most_(most), pause_(least), random_(std::random_device()()) {}

  // The next pause: between half of the present limit and all of it.
  absl::Duration Next();
  // The next pause is short again.
  void Reset() { pause_ = least_; }

 private:
  absl::Duration least_;
  absl::Duration most_;
  absl::Duration pause_;  // the limit of the next pause
  std::minstd_rand random_;
};

}  // namespace dafs::client
