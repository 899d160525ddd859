// `dafsctl restart`: has the mount.dafs of a mount replaced (docs/restart.md). Any thread. Blocks
// for about a minute at most for each mount.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace dafs::client {

struct RestartOptions {
  std::string program;  // empty: the file of the program that runs
  bool all = false;     // each mount of this machine
};

// Adds the command. `mount_point` and `options` outlive `app`.
CLI::App* AddRestartCommand(CLI::App& app, std::string& mount_point, RestartOptions& options);

// Asks the mount that answers on `socket`, and waits until its new program answers, for a minute at
// most (kDeadlineExceeded). kFailedPrecondition: the mount refuses, and goes on; the message says
// why. Other errors: those of AskControlSocket.
absl::Status Restart(const std::string& socket, const RestartOptions& options);

// Restarts each mount that has a socket in `directory`, one after the other, and prints to standard
// error which could not be, and why. The error says how many. No mount: OK.
absl::Status RestartAll(const std::string& directory, const RestartOptions& options);

}  // namespace dafs::client
