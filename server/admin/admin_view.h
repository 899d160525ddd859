// What the answers of the control socket read. Borrowed; all of it is thread-safe.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/clients/options.h"
#include "server/session/shared.h"

namespace dafs::server {

struct AdminView {
  Shared shared;
  const std::vector<ListenAddress>* bound = nullptr;  // does not change any more
  absl::Time since;  // of Loop::Now: when the server began to serve
};

}  // namespace dafs::server
