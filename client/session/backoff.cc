#include "client/session/backoff.h"

#include <algorithm>
#include <utility>

namespace dafs::client {

absl::Duration Backoff::Next() {
  const absl::Duration most = std::exchange(pause_, std::min(pause_ * 2, most_));
  return most * std::uniform_real_distribution<double>(0.5, 1.0)(random_);
}

}  // namespace dafs::client
