// One attempt to mount: finds the server, checks the export, attaches /dev/fuse and lets the
// workers serve. Ends when the kernel closes the connection or a signal arrives. Belongs to the
// main thread. The destructor ends the workers and waits for them.
#pragma once

#include <memory>
#include <vector>

#include "client/status/lease_keeper.h"
#include "fuse/mount/daemon.h"
#include "fuse/mount/end_signals.h"
#include "fuse/mount/exit_code.h"
#include "fuse/mount/mount_client.h"
#include "fuse/mount/mount_messages.h"
#include "fuse/mount/mount_rings.h"
#include "fuse/mount/trim_schedule.h"
#include "fuse/mount/worker.h"
#include "fuse/operations/mount_state.h"
#include "fuse/operations/promise_breaks.h"
#include "fuse/options/options.h"
#include "runtime/unique_fd.h"

namespace dafs::fuse {

class Mount {
 public:
  // `signals` and `daemon` must outlive this. `may_lock`: one write buffer is locked in memory.
  Mount(const Options& options, const EndSignals& signals, const Daemon& daemon, bool may_lock);
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  // Returns when programs can use the mount, or it has failed. Blocks on the server's name, on one
  // attempt at each address and transport, and on the kernel; a signal ends the wait for the
  // server. A failure with `may_pass` may be retried, with a new Mount.
  Outcome Begin();
  // Call after Begin has succeeded. Blocks until the mount ends. Returns the exit code of a run in
  // the foreground.
  ExitCode Serve();
  // Removes the mount from the directory (umount -l). The kernel closes the connection when no
  // program uses the mount any more.
  void Detach();

 private:
  Outcome WatchEnd();
  Outcome StartWorkers();
  Outcome FindRoot();
  void DecideWhoChecks();
  Outcome Attach();
  Outcome ServeKernel(UniqueFd device);
  Outcome TakePromises(int device);
  Outcome AwaitInit();
  Outcome StartLeaseKeeper();
  void WaitForEnd();
  void GiveBackMemory();

  MountState state_;
  const bool may_lock_;
  const EndSignals& signals_;
  const Daemon& daemon_;
  UniqueFd ended_;  // counts the workers that have ended
  MountFacts facts_;
  MountClient client_;
  std::vector<std::unique_ptr<Worker>> workers_;
  MountRings rings_{state_};
  std::unique_ptr<PromiseBreaks> breaks_;  // null: the mount takes no promises
  std::unique_ptr<client::LeaseKeeper> lease_keeper_;
  TrimSchedule trim_schedule_;
};

}  // namespace dafs::fuse
