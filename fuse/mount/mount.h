// One mount from its beginning to its end: finds the server, makes sure of the export, attaches
// /dev/fuse, lets the workers serve, and takes everything down when the kernel hangs up or a signal
// asks for it. Called once, by main, on the main thread.
#pragma once

#include "fuse/mount/daemon.h"
#include "fuse/mount/exit_code.h"
#include "fuse/options/options.h"
#include "runtime/log.h"

namespace dafs::fuse {

// What is worth logging: everything with -v.
Severity LeastSeverity(const Options& options);

// Returns when the mount has ended, or could not be made. `daemon` has been told which by then: it
// was reported as soon as the mount answered, or failed.
// SIGINT, SIGTERM and SIGHUP end the mount: it is detached, calls in hand get two seconds.
ExitCode RunMount(const Options& options, Daemon& daemon);

}  // namespace dafs::fuse
