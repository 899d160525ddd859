// Becoming a daemon: the parent waits, and ends with the child's exit code and message once the
// mount answers or has failed. Called once, before any thread is started.
#pragma once

#include "fuse/mount/exit_code.h"
#include "runtime/unique_fd.h"

namespace dafs::fuse {

// The child's end: it must call Report() once. Destroyed unreported (the child died), the parent
// says so and ends with kInternal.
class Daemon {
 public:
  // In the foreground nothing is forked and Report only prints. Otherwise returns in the child;
  // the parent never returns. kSystem: fork or pipe failed.
  static Outcome Start(bool foreground, Daemon* daemon);

  // Reports to the parent, which prints the reason and exits. With an ok outcome the child leaves
  // its terminal: a session of its own, standard streams to /dev/null, directory "/".
  //
  // Until then the child stays in the process group of the mount command. autofs blocks every
  // access to the mount point until it is mounted, except from that process group. All work on the
  // mount point (stat, mount, umount) therefore comes before Report.
  //
  // False: the parent was killed; the caller should undo the mount. Only the first report counts.
  bool Report(const Outcome& outcome);

  // Whether Report was called. What comes later is for the log.
  bool reported() const { return reported_; }

  // Readable with an error (POLLERR) once the parent was killed; -1: there is no parent to wait
  // for.
  int parent_gone_fd() const { return pipe_.get(); }

 private:
  UniqueFd pipe_;  // not valid in the foreground
  bool reported_ = false;
};

// Prints "mount.dafs: reason" to standard error, if there is a reason.
void PrintReason(const Outcome& outcome);

}  // namespace dafs::fuse
