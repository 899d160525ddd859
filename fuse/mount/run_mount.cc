#include "fuse/mount/run_mount.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "fuse/kernel/notifications/memory_pressure.h"
#include "fuse/mount/client/mount_name.h"
#include "fuse/mount/mount.h"
#include "fuse/mount/mount_retry.h"
#include "fuse/mount/process/end_signals.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {
namespace {

ExitCode Failed(const Outcome& outcome, Daemon& daemon) {
  if (daemon.reported()) {
    LogError(outcome.reason);
  } else {
    daemon.Report(outcome);
  }
  return outcome.code;
}

// One attempt at one server. `code`: of a mount that has ended, if there was one.
Outcome MountAndServe(const Options& options, const NameFound& name, const EndSignals& signals,
                      Daemon& daemon, const Mount::Means& means, bool may_lock, ExitCode* code) {
  Outcome outcome;
  {
    Mount mount(options, signals, daemon, means, may_lock);
    mount.RefreshName(name.service, name.refresh);
    outcome = mount.Begin();
    if (outcome.ok()) {
      // A parent that was killed while it waited does not want the mount.
      if (!daemon.Report(outcome)) mount.Detach();
      if (!options.foreground) LogToSyslog("mount.dafs", LeastSeverity(options));
      *code = mount.Serve();
    }
  }
  alarm(0);
  return outcome;
}

// One attempt at each place of a name, or at the server.
Outcome MountSomewhere(const Options& options, const EndSignals& signals, Daemon& daemon,
                       const Mount::Means& means, bool may_lock, ExitCode* code) {
  NameFound name;
  if (!options.source.is_name) {
    return MountAndServe(options, name, signals, daemon, means, may_lock, code);
  }
  Outcome outcome = LookUpName(options, signals, daemon, &name);
  std::string reasons;
  for (const names::Place& place : name.places) {
    outcome =
        MountAndServe(OptionsAt(options, place), name, signals, daemon, means, may_lock, code);
    if (!outcome.may_pass) return outcome;
    reasons += (reasons.empty() ? "" : "; ") + outcome.reason;
  }
  if (!reasons.empty()) outcome.reason = reasons;
  return outcome;
}

// With `bg` the parent returns now. Otherwise it continues to wait, and `text` is for its user.
void SayRetrying(const std::string& text, const Options& options, Daemon& daemon) {
  if (!options.background || options.foreground) {
    PrintReason({ExitCode::kOk, text});
    return;
  }
  daemon.Report({ExitCode::kOk, text});
  LogToSyslog("mount.dafs", LeastSeverity(options));
  LogWarning(text);
}

}  // namespace

Severity LeastSeverity(const Options& options) {
  return options.verbose ? Severity::kDebug : Severity::kNotice;
}

ExitCode RunMount(const Options& options, Daemon& daemon, const Mount::Means& means) {
  const bool may_lock = PrepareForMemoryPressure();
  const EndSignals signals;
  if (!signals.valid()) {
    const Outcome failed = {ExitCode::kSystem, std::string("signalfd: ") + std::strerror(errno)};
    daemon.Report(failed);
    return failed.code;
  }
  MountRetry retry(options, Loop::Now());
  std::optional<absl::Duration> pause;
  for (int attempts = 1;; ++attempts) {
    ExitCode code = ExitCode::kOk;
    const Outcome outcome = MountSomewhere(options, signals, daemon, means, may_lock, &code);
    if (outcome.ok()) return code;
    pause = retry.NextPause(outcome, Loop::Now());
    if (!pause.has_value()) return Failed(retry.Last(outcome, attempts), daemon);
    if (attempts == 1) SayRetrying(retry.Announce(outcome), options, daemon);
    if (!signals.Wait(daemon, *pause)) return Failed(Interrupted(), daemon);
  }
}

ExitCode ContinueMount(const Options& options, const Mount::Means& means,
                       const HandoverRecord& record, GuardianLink::Inheritance inheritance) {
  const bool may_lock = PrepareForMemoryPressure();
  const EndSignals signals;
  Daemon daemon;
  if (!signals.valid()) {
    const Outcome failed = {ExitCode::kSystem, std::string("signalfd: ") + std::strerror(errno)};
    LogError(failed.reason);
    return failed.code;
  }
  ExitCode code = ExitCode::kOk;
  {
    Mount mount(options, signals, daemon, means, may_lock);
    mount.RefreshName("", absl::ZeroDuration());
    const Outcome outcome = mount.Continue(record, std::move(inheritance));
    if (!outcome.ok()) {
      LogError(outcome.reason);
      return outcome.code;
    }
    code = mount.Serve();
  }
  alarm(0);
  return code;
}

}  // namespace dafs::fuse
