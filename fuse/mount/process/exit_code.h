// The exit codes of mount(8), and the outcome of a mount: an exit code and a one-line reason.
#pragma once

#include <string>

namespace dafs::fuse {

enum class ExitCode : int {
  kOk = 0,
  kUsage = 1,        // incorrect invocation or permissions
  kSystem = 2,       // out of memory, cannot fork, no more devices
  kInternal = 4,     // a bug of mount.dafs
  kInterrupted = 8,  // by the user
  kMountFailure = 32,
};

// How the start of a mount ended. `reason` is empty with kOk, unless the mount is retried in the
// background.
struct Outcome {
  ExitCode code = ExitCode::kOk;
  std::string reason;
  bool may_pass = false;  // the server was not reached: a later attempt may succeed
  bool ok() const { return code == ExitCode::kOk; }
};

}  // namespace dafs::fuse
