// From a status of the client library to errno. client/files/shared/dafs_errno.h has the codes of
// the protocol. Any thread.
#pragma once

#include "absl/status/status.h"

namespace dafs::fuse {

// A positive errno value; 0 for OK.
int ErrnoFromStatus(const absl::Status& status);

}  // namespace dafs::fuse
