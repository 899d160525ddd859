// One mount from start to end, repeated while its server does not answer. Called once, by main, on
// the main thread.
#pragma once

#include "fuse/mount/mount.h"
#include "fuse/mount/process/daemon.h"
#include "fuse/mount/process/exit_code.h"
#include "fuse/mount/process/guardian_link.h"
#include "fuse/options/options.h"
#include "fuse/restart/handover_record.h"
#include "runtime/log/log.h"

namespace dafs::fuse {

// The least severity that is logged: with -v, everything is.
Severity LeastSeverity(const Options& options);

// Returns when the mount has ended, or could not be made. Calls daemon.Report as soon as the mount
// answers or has failed.
// SIGINT, SIGTERM and SIGHUP detach the mount; the workers then end as worker_ending.h describes.
ExitCode RunMount(const Options& options, Daemon& daemon, const Mount::Means& means);

// Continues the mount that another program has left (docs/restart.md), and then as RunMount.
ExitCode ContinueMount(const Options& options, const Mount::Means& means,
                       const HandoverRecord& record, GuardianLink::Inheritance inheritance);

}  // namespace dafs::fuse
