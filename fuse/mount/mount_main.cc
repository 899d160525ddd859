// main() of mount.dafs. The command line is in fuse/options/options.h, the mount in
// fuse/mount/run_mount.h.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/status/mount_point.h"
#include "fuse/mount/daemon.h"
#include "fuse/mount/mount_syscall.h"
#include "fuse/mount/remount.h"
#include "fuse/mount/run_mount.h"
#include "fuse/options/options.h"
#include "runtime/log.h"

namespace {

using dafs::fuse::ExitCode;

int Code(ExitCode code) { return static_cast<int>(code); }

int Fail(const dafs::fuse::Outcome& outcome) {
  dafs::fuse::PrintReason(outcome);
  return Code(outcome.code);
}

}  // namespace

int main(int argc, char** argv) {
#ifdef NDEBUG
  // Debian's Abseil checks for lock cycles at every acquisition, which only tests need.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  std::vector<std::string> arguments(argv + 1, argv + argc);
  dafs::fuse::Caller caller{.root = geteuid() == 0, .by_mount8 = dafs::fuse::StartedByMount8()};
  absl::StatusOr<dafs::fuse::Options> options = dafs::fuse::ParseOptions(arguments, caller);
  if (!options.ok()) {
    return Fail({ExitCode::kUsage, std::string(options.status().message())});
  }
  if (options->help) {
    std::fputs(dafs::fuse::HelpText().c_str(), stdout);
    return Code(ExitCode::kOk);
  }
  if (options->version) {
    std::puts("mount.dafs " DAFS_VERSION);
    return Code(ExitCode::kOk);
  }
  // Must happen before the daemon changes its directory, and in the process group that autofs
  // exempts.
  options->mount_point = dafs::client::ResolveMountPoint(options->mount_point);
  if (options->remount) return Fail(dafs::fuse::Remount(*options));

  // Otherwise standard error shows only the one line with the reason of a failure.
  if (options->foreground || options->verbose) {
    dafs::LogToStderr("mount.dafs", dafs::fuse::LeastSeverity(*options));
  } else {
    dafs::LogToSyslog("mount.dafs", dafs::fuse::LeastSeverity(*options));
  }
  dafs::fuse::Daemon daemon;
  dafs::fuse::Outcome started = dafs::fuse::Daemon::Start(options->foreground, &daemon);
  if (!started.ok()) return Fail(started);
  return Code(dafs::fuse::RunMount(*options, daemon));
}
