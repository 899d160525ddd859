// The signals that end a mount: SIGINT, SIGTERM and SIGHUP. Belongs to the main thread.
#pragma once

#include "absl/time/time.h"
#include "fuse/mount/process/daemon.h"
#include "fuse/mount/process/exit_code.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

class EndSignals {
 public:
  // Call before any thread starts, so that all of them inherit the blocked signals.
  EndSignals();

  // A signalfd, readable when a signal has arrived; -1 with errno if the kernel has none left.
  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  // Waits for `most`. Returns false if a signal arrived, or if the process that
  // started this daemon and waits for its report was killed.
  bool Wait(const Daemon& daemon, absl::Duration most) const;

 private:
  UniqueFd fd_;
};

inline Outcome Interrupted() { return {ExitCode::kInterrupted, "interrupted"}; }

}  // namespace dafs::fuse
