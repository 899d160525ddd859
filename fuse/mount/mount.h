// One attempt to mount: finds the server, checks the export, attaches /dev/fuse and lets the
// workers serve. Ends when the kernel closes the connection or a signal arrives. Belongs to the
// main thread. The destructor ends the workers and waits for them.
//
// With a guardian another program can continue the mount (docs/restart.md): dafsctl asks for it,
// and Serve then returns when everything is left to the guardian.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/status/lease_keeper.h"
#include "fuse/cache/record/live_record.h"
#include "fuse/kernel/channel.h"
#include "fuse/mount/client/mount_client.h"
#include "fuse/mount/client/name_refresh.h"
#include "fuse/mount/errors/mount_messages.h"
#include "fuse/mount/mount_rings.h"
#include "fuse/mount/process/daemon.h"
#include "fuse/mount/process/end_signals.h"
#include "fuse/mount/process/exit_code.h"
#include "fuse/mount/process/guardian_link.h"
#include "fuse/mount/trim_schedule.h"
#include "fuse/mount/worker.h"
#include "fuse/operations/promise_breaks.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/options/options.h"
#include "fuse/restart/handover_record.h"
#include "fuse/restart/live_client.h"
#include "fuse/restart/restart_desk.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

class Mount {
 public:
  // How another program can continue the mount.
  struct Means {
    GuardianLink& guardian;  // not valid: it cannot
    std::string program;     // of this process
    bool by_mount8 = false;  // as in Caller
  };
  // `signals`, `daemon` and what `means` names must outlive this. `may_lock`: one write buffer is
  // locked in memory.
  Mount(const Options& options, const EndSignals& signals, const Daemon& daemon, const Means& means,
        bool may_lock);
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  // The source is a name, which `service` had: how often to look it up again. Before Begin.
  void RefreshName(std::string service, absl::Duration pause);
  // Returns when programs can use the mount, or it has failed. Blocks on the server's name, on one
  // attempt at each address and transport, and on the kernel; a signal ends the wait for the
  // server. A failure with `may_pass` may be retried, with a new Mount.
  Outcome Begin();
  // In place of Begin: continues the mount that another program has left. Returns when it serves
  // programs; the server need not answer.
  Outcome Continue(const HandoverRecord& record, GuardianLink::Inheritance inheritance);
  // Call after Begin or Continue has succeeded. Blocks until the mount ends. Returns the exit code
  // of a run in the foreground.
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
  Outcome CloneDevices(UniqueFd device, std::vector<UniqueFd>* devices);
  Outcome ServeKernel(std::vector<UniqueFd> devices, const HandoverRecord* record);
  void AwaitPromises();
  Outcome TakePromises(int device);
  Outcome AwaitInit();
  Outcome StartLeaseKeeper();
  enum class Event : uint8_t { kEnded, kSignal, kRestart };
  Event WaitForEvent();
  void GiveBackMemory();
  void StepNameRefresh();

  // Leaves the mount to the guardian. The error says why it is not possible; the mount then goes
  // on.
  absl::Status HandOver(std::string program);
  absl::Status CanHandOver(const std::string& program) const;
  absl::Status Quiesce(HandoverRecord& record);
  absl::Status AwaitSettled();
  absl::Status AskServer();
  absl::Status AwaitClosed();
  absl::Status DropCaches();
  absl::Status ReturnDelegations();
  absl::Status Drain();
  bool IsQuiet(absl::Duration most) const;
  bool HasEnded() const;
  void ServeAgain(const HandoverRecord& record);
  absl::Status CommitAll(absl::Duration most);
  absl::Status Leave(HandoverRecord& record, const std::string& program);
  // Keeps the state that another program needs if this one is killed.
  void MakeLiveRecord();
  void PrepareForKill();
  void TidyUp(const HandoverRecord& record);
  Outcome TakeOver(std::span<const UniqueFd> devices, const HandoverRecord& record);
  bool IsRequestWaiting() const;
  bool CatchUp();
  void ForgetOutdated();
  bool SettleLeft();
  Outcome Restore(const HandoverRecord& record, const UniqueFd& live);
  void LogContinued(const HandoverRecord& record, bool killed, int64_t now_ns) const;
  void GoOn(const HandoverRecord& record);

  std::unique_ptr<LiveRecord> live_;  // null: nothing survives if this process is killed
  std::unique_ptr<LiveClient> live_client_;
  MountState state_;
  const bool may_lock_;
  const EndSignals& signals_;
  const Daemon& daemon_;
  const Means means_;
  RestartDesk desk_;
  bool left_ = false;       // to the guardian
  bool is_settled_ = true;  // nothing is left of a killed program: see SettleLeft
  struct Restarts {
    uint64_t count = 0;  // so far
    absl::Time last;
  };
  Restarts restarts_;
  UniqueFd ended_;  // counts the workers that have ended
  MountFacts facts_;
  MountClient client_;
  std::vector<std::unique_ptr<Worker>> workers_;
  MountRings rings_{state_};
  std::unique_ptr<PromiseBreaks> breaks_;  // null: the mount takes no promises
  UniqueFd device_;                        // of the mount, for a restart
  std::unique_ptr<client::LeaseKeeper> lease_keeper_;
  TrimSchedule trim_schedule_;
  std::unique_ptr<NameRefresh> name_refresh_;  // null: the source is a server
};

}  // namespace dafs::fuse
