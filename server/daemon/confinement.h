// Takes from this process what a file server needs at no time, before it opens anything of a
// client: capabilities, new privileges, and system calls. A fault in it then gives an attacker no
// more than that.
// Linux: capabilities(7), PR_SET_NO_NEW_PRIVS and PR_SET_SECCOMP of prctl(2).
#pragma once

#include "absl/status/status.h"

namespace dafs::server {

// Call once, before the process has a thread: threads inherit all of it. Capabilities that the
// process does not have stay absent. kInternal: the kernel refused; the message says what.
absl::Status Confine();

}  // namespace dafs::server
