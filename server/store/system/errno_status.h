// The one table from errno to DAFS status codes on the server. Spec: WIRE section 12.
// Usable from any thread.
#pragma once

#include "wire/protocol/status.h"

namespace dafs::server {

// Converts `error`, an errno value, to the status for the peer. SERVERFAULT if it has no code of
// its own. Must not be called with 0.
wire::DafsStatus StatusFromErrno(int error);

// The same for the present value of errno.
wire::DafsStatus StatusFromErrno();

}  // namespace dafs::server
