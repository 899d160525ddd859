// The one table from what the client library answers to errno. Any thread.
#pragma once

#include "absl/status/status.h"

namespace dafs::fuse {

// A positive errno value; 0 for OK.
int ErrnoFromStatus(const absl::Status& status);

}  // namespace dafs::fuse
