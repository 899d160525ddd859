// The guardian of a mount: a small process, the parent of mount.dafs, that holds /dev/fuse while
// mount.dafs is replaced by another program (docs/restart.md). The kernel ends a mount when the
// last descriptor of its connection is closed, and the requests that were read from a clone when
// that clone is closed. So the guardian holds all of them.
//
// It serves no request, opens no file and has one thread. When mount.dafs ends it ends, too, with
// the same exit code, unless mount.dafs has left a record for its successor, or was killed and can
// be continued.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "fuse/mount/process/daemon.h"
#include "fuse/mount/process/guardian_link.h"

namespace dafs::fuse {

struct GuardianPlan {
  std::vector<std::string> words;  // the command line of mount.dafs, with its name
  std::string title;               // what ps(1) shows as the guardian's command line
  char** argv = nullptr;           // of main, for the title
  bool foreground = false;         // keeps standard error, and its session
};

// Forks. Returns the link in the child, which is mount.dafs; the parent becomes the guardian and
// never returns. Call before any thread is started. The child reports to `daemon`.
// SIGTERM, SIGINT and SIGHUP to the guardian go to mount.dafs.
absl::StatusOr<GuardianLink> StartGuardian(const GuardianPlan& plan, Daemon& daemon);

}  // namespace dafs::fuse
