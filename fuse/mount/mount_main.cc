// main() of mount.dafs. The command line is in
// fuse/options/command_line.h, the mount in fuse/mount/run_mount.h.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/state/server/token_thread.h"
#include "client/status/mount_point.h"
#include "fuse/cache/live_nodes.h"
#include "fuse/kernel/notifications/memory_pressure.h"
#include "fuse/kernel/notifications/notification_relay.h"
#include "fuse/mount/attach/mount_syscall.h"
#include "fuse/mount/attach/remount.h"
#include "fuse/mount/client/mount_name.h"
#include "fuse/mount/process/daemon.h"
#include "fuse/mount/process/guardian.h"
#include "fuse/mount/process/guardian_link.h"
#include "fuse/mount/run_mount.h"
#include "fuse/options/command_line.h"
#include "fuse/options/options.h"
#include "fuse/restart/handover.h"
#include "fuse/restart/handover_record.h"
#include "fuse/restart/named_place.h"
#include "fuse/restart/successor.h"
#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"

namespace {

using dafs::fuse::ExitCode;

int Code(ExitCode code) { return static_cast<int>(code); }

// Ends the process after its mount.
int End(ExitCode code) {
  // exit(3) runs the destructors of the Kerberos libraries, which the thread uses.
  if (dafs::client::TokenThread::HasLeftThread()) {
    std::fflush(nullptr);
    _exit(Code(code));
  }
  return Code(code);
}

int Fail(const dafs::fuse::Outcome& outcome) {
  dafs::fuse::PrintReason(outcome);
  return Code(outcome.code);
}

void StartLog(const dafs::fuse::Options& options, bool to_stderr) {
  const dafs::Severity least = dafs::fuse::LeastSeverity(options);
  if (to_stderr) {
    dafs::LogToStderr("mount.dafs", least);
  } else {
    dafs::LogToSyslog("mount.dafs", least);
  }
}

// The command line is that of the mount, and the guardian has the rest.
int Continue(dafs::fuse::GuardianLink guardian, const std::vector<std::string>& arguments,
             const std::string& program) {
  dafs::LogToSyslog("mount.dafs", dafs::Severity::kNotice);
  absl::StatusOr<dafs::fuse::GuardianLink::Inheritance> left = guardian.Receive();
  absl::StatusOr<dafs::fuse::HandoverRecord> record =
      left.ok() ? dafs::fuse::ReadRecord(left->record.get()) : left.status();
  if (record.ok() && left->live.valid()) {
    absl::StatusOr<std::vector<dafs::fuse::LiveRecord::Item>> items =
        dafs::fuse::LiveRecord::Read(left->live.get());
    if (items.ok()) dafs::fuse::AfterKill(*items, *record);
    if (!items.ok()) record = items.status();
  }
  if (!record.ok()) return Fail({ExitCode::kInternal, std::string(record.status().message())});
  absl::StatusOr<dafs::fuse::Options> options =
      dafs::fuse::ParseOptions(arguments, {.root = geteuid() == 0, .by_mount8 = record->by_mount8});
  if (!options.ok()) return Fail({ExitCode::kUsage, std::string(options.status().message())});
  options->mount_point = record->mount_point;
  if (absl::Status place = dafs::fuse::SetPlace(record->place, *options); !place.ok()) {
    return Fail({ExitCode::kInternal, std::string(place.message())});
  }
  StartLog(*options, options->foreground);
  return End(dafs::fuse::ContinueMount(*options, {guardian, program, record->by_mount8}, *record,
                                       *std::move(left)));
}

}  // namespace

int main(int argc, char** argv) {
#ifdef NDEBUG
  // Debian's Abseil checks for lock cycles at every acquisition, which only tests need.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && arguments[0] == dafs::fuse::kRecordVersionFlag) {
    std::printf("%u\n", dafs::fuse::HandoverRecord::kVersion);
    return Code(ExitCode::kOk);
  }
  if (arguments.size() == 1 && arguments[0] == dafs::fuse::kNotificationRelayFlag) {
    dafs::fuse::PrepareForMemoryPressure();
    dafs::fuse::RunNotificationRelay(dafs::UniqueFd(STDIN_FILENO));
    _exit(Code(ExitCode::kOk));  // without its threads, which may wait
  }
  const std::string program = dafs::fuse::OwnProgram();
  dafs::fuse::GuardianLink guardian = dafs::fuse::GuardianLink::FromEnvironment();
  if (guardian.valid()) return Continue(std::move(guardian), arguments, program);
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
  StartLog(*options, options->foreground || options->verbose);
  dafs::fuse::Daemon daemon;
  dafs::fuse::Outcome started = dafs::fuse::Daemon::Start(options->foreground, &daemon);
  if (!started.ok()) return Fail(started);
  if (options->guardian && !options->fake) {
    absl::StatusOr<dafs::fuse::GuardianLink> link =
        dafs::fuse::StartGuardian({.words = std::vector<std::string>(argv, argv + argc),
                                   .title = "dafs-guardian " + options->mount_point,
                                   .argv = argv,
                                   .foreground = options->foreground},
                                  daemon);
    // The mount works without, but cannot be restarted.
    if (link.ok()) guardian = *std::move(link);
  }
  return End(dafs::fuse::RunMount(*options, daemon, {guardian, program, caller.by_mount8}));
}
