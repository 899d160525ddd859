#include "client/session/backoff.h"

namespace dafs::client {

absl::Duration Backoff::Next() {
  const absl::Duration most = limit_.next();
  limit_.Grow();
  return most * std::uniform_real_distribution<double>(0.5, 1.0)(random_);
}

}  // namespace dafs::client
