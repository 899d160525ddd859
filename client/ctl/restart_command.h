// `dafsctl restart`: has the mount.dafs of a mount replaced (docs/restart.md).
#pragma once

#include <string>

#include "absl/status/status.h"

namespace dafs::client {

struct RestartOptions {
  std::string program;  // empty: the file of the program that runs
};

// Asks the mount that answers on `socket`, and waits until its new program answers, for a minute at
// most. kFailedPrecondition: the mount refuses, and goes on; the message says why. Others:
// AskControlSocket.
absl::Status Restart(const std::string& socket, const RestartOptions& options);

}  // namespace dafs::client
