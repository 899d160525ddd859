// The one table from errno to DAFS status codes on the server. Spec: WIRE.md section 12.
// Usable from any thread.
#pragma once

#include "wire/protocol/status.h"

namespace dafs::server {

// What a system call's `error` (an errno value) means to the peer; SERVERFAULT for what has no
// code of its own. Must not be called with 0.
wire::DafsStatus StatusFromErrno(int error);

// The same for the value errno has now.
wire::DafsStatus StatusFromErrno();

}  // namespace dafs::server
