// Log lines about a mount that serves. Any thread.
#pragma once

#include <string>

#include "client/exchange/report.h"
#include "fuse/operations/shared/mount_state.h"

namespace dafs::fuse {

struct MountFacts {
  std::string mount_point;
  client::SessionReport session;  // the first one
  std::string requests_by;        // how the kernel's requests arrive
  std::string cpu_latency;        // the effect of that option
  bool squashed = false;          // the server maps all users to one (all_squash)
  bool squashed_in_part = false;  // the server does so in some exports below the root
};

// Logs one short line about the mount. Why other transports failed and which features are in use is
// logged at the level of -v, because dafsctl status shows it too.
void LogMounted(const MountState& state, const MountFacts& facts);

}  // namespace dafs::fuse
