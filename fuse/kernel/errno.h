// The only table from status codes of the client library to errno. Any thread.
#pragma once

#include "absl/status/status.h"

namespace dafs::fuse {

// A positive errno value; 0 for OK.
int ErrnoFromStatus(const absl::Status& status);

}  // namespace dafs::fuse
