// How long to wait before a retry after the server answered DELAY or GRACE. Doubles each time. A
// value.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace dafs::client {

class ServerDelay {
 public:
  explicit ServerDelay(absl::Duration most = absl::Seconds(5)) : most_(most) {}
  absl::Duration next() const { return next_; }
  void Grow() { next_ = std::min(next_ * 2, most_); }

 private:
  absl::Duration most_;
  absl::Duration next_ = absl::Milliseconds(10);
};

}  // namespace dafs::client
