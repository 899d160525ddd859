// Turns the process into a daemon. The parent waits until the mount answers or has failed, then
// ends with the child's exit code and message. Called once, before any thread is started.
#pragma once

#include "fuse/mount/process/exit_code.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

// The child's end of the pipe. The child must call Report() once. If the child dies before that,
// the parent prints a reason and ends with kInternal.
class Daemon {
 public:
  // In the foreground, does not fork, and Report only prints. Otherwise returns in the child; the
  // parent never returns. Fails with kSystem if fork(2) or pipe(2) failed.
  static Outcome Start(bool foreground, Daemon* daemon);

  // Reports to the parent, which prints the reason and exits. If `outcome` is ok, the child then
  // leaves its terminal: a session of its own, standard streams on /dev/null, directory "/".
  //
  // Until then the child stays in the process group of the mount command. autofs blocks every
  // access to the mount point until it is mounted, except from that process group. All work on the
  // mount point (stat, mount, umount) must therefore be done before Report.
  //
  // Returns false if the parent was killed; the caller should then undo the mount. Only the first
  // report counts.
  bool Report(const Outcome& outcome);

  // A child of this process reports. Call in the process that stays its parent.
  void LeaveToChild() { pipe_.Close(); }

  // Whether Report was called. Later errors go to the log.
  bool reported() const { return reported_; }

  // poll(2) reports POLLERR on it after the parent was killed. -1: no parent waits.
  int parent_gone_fd() const { return pipe_.get(); }

 private:
  UniqueFd pipe_;  // not valid in the foreground
  bool reported_ = false;
};

// Gives the calling process a session of its own, /dev/null as its standard streams, and "/" as its
// directory.
void LeaveTerminal();

// Prints "mount.dafs: reason" to standard error, if there is a reason.
void PrintReason(const Outcome& outcome);

}  // namespace dafs::fuse
