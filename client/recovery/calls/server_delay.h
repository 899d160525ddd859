// How long to wait before a retry after the server answered DELAY or GRACE.
#pragma once

#include "absl/time/time.h"
#include "runtime/doubling_pause.h"

namespace dafs::client {

inline DoublingPause ServerDelay(absl::Duration most = absl::Seconds(5)) {
  return {absl::Milliseconds(10), most};
}

}  // namespace dafs::client
