// How many recalls of delegations there were, and how long each took until the delegation ended.
// A value: its owner guards it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace dafs::server {

struct RecallTimes {
  uint64_t begun = 0;
  uint64_t ended = 0;    // returned or revoked
  uint64_t revoked = 0;  // of these
  absl::Duration total;  // of those that ended
  absl::Duration longest;

  // The mean of the recalls that ended; zero if none has.
  absl::Duration mean() const {
    return ended > 0 ? total / static_cast<int64_t>(ended) : absl::ZeroDuration();
  }
  // A recall is over, after `time`.
  void End(absl::Duration time, bool is_revoked) {
    ++ended;
    if (is_revoked) ++revoked;
    total += time;
    longest = std::max(longest, time);
  }
};

}  // namespace dafs::server
