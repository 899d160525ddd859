// The only table from the status codes of the protocol to errno, for the mount and for the C
// interface of libdafs. Spec: WIRE section 12. Any thread.
#pragma once

#include "wire/protocol/status.h"

namespace dafs::client {

// A positive errno value; 0 for OK. A status without an errno of its own becomes EIO: the protocol
// failed, not the file.
int ErrnoFromDafs(wire::DafsStatus status);

}  // namespace dafs::client
