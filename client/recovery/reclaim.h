// Reclaims opens and locks that the server lost, before another request uses them.
// Spec: 4.4.1.2 (crash recovery), 4.4.1.6 (a restarted server gives another client_id), 6.5.24
// (CLAIM_PREVIOUS).
//
// Each worker reclaims when it sees a new client_id. Two workers may reclaim the same open: an
// owner has one open of a file, so the result is the same.
//
// A server that does not serve an export yet delays the reclaims there. They are tried again after
// those in other exports, whose grace period does not wait.
// Belongs to the thread of its loop. Nothing blocks.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/recovery/request_executor.h"
#include "client/state/opens.h"
#include "runtime/loop/task.h"
#include "runtime/loop/wait_list.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Committer;

class Reclaim {
 public:
  // Both must outlive this.
  Reclaim(RequestExecutor& executor, Committer& committer);

  // Call when a session is established. Starts the reclaim if one is needed; does not wait.
  void SessionReady(const Session& session);
  void Shutdown() { done_.WakeAll(absl::CancelledError("the mount ends")); }

  // Whether all opens have been reclaimed under this client_id.
  bool IsDone(const wire::ClientId& client_id) const { return reclaimed_under_ == client_id; }
  // Waits for the end of the reclaim. After OK the caller checks IsDone again.
  Task<absl::Status> Await(absl::Time deadline);
  // Whether data that the server lost is being written again.
  bool restoring() const;
  Task<absl::Status> AwaitRestored(absl::Time deadline);

  // Reclaims `open`. OK: the server knows it again, or the reclaim failed and the open is marked as
  // lost. If it is closed, or was lost before, returns an error that says so. Other errors are
  // those of RequestExecutor::Run: the open was not reclaimed.
  Task<absl::Status> ReclaimOpen(wire::StateId open);
  // The open, or a lock that it held, cannot be had again: logs it, and its next use fails.
  void GiveUpOpen(const wire::StateId& open, const absl::Status& why);

 private:
  // An open as one instance of the server has granted it again.
  struct Reclaimed {
    wire::StateId state_id;
    wire::ClientId client_id;  // the state id is valid with this one only
    wire::LockRanges locks{};  // reclaimed so far
    bool forgotten = false;    // the server has restarted since: reclaim the open again
  };

  void Start();
  Task<void> ReclaimAll();
  Task<absl::Status> ReclaimUnder(wire::ClientId client_id);
  // Reclaims `left`, and leaves in it those that the server delays.
  Task<absl::Status> ReclaimRound(std::vector<wire::StateId>& left);
  // ReclaimOpen. False: the server delays it. Only with Gate::kImpatient.
  Task<absl::StatusOr<bool>> TryReclaim(wire::StateId open, RequestExecutor::Gate gate);
  Task<absl::Status> OpenAgain(wire::StateId open, Opens::Entry entry, wire::DafsStatus refused);
  Task<void> TakeReclaimed(wire::StateId open, Opens::Entry entry, wire::StateId state_id,
                           wire::ClientId client_id);
  // 5.2.5: a client reclaims its locks before it sends another request. So any request shows the
  // server that the reclaim is complete, and the server stops delaying other clients. An idle mount
  // would send no request.
  Task<void> SendAnyRequest();
  // Sends DELEGPURGE (WIRE 9.7). Before requests that may close a file: the server removes an
  // unlinked file with its last CLOSE only if no client may claim another open of it.
  Task<void> SendDelegPurge(wire::ClientId client_id);
  // Reclaims the record locks of `open` under its new `state_id`, before the client uses that state
  // id. A second call reclaims what other workers changed meanwhile. Returns an error if a lock is
  // lost. If the server restarts meanwhile, returns OK and sets `forgotten`.
  Task<absl::Status> ReclaimLocks(wire::StateId open, Reclaimed* reclaimed);
  bool HoldsLocks(const wire::StateId& open) const;

  RequestExecutor& executor_;
  Committer& committer_;
  Client& client_;
  SessionKeeper& session_keeper_;
  WaitList done_;  // waiters for the reclaim, or for the lost data
  bool reclaiming_ = false;
  // All opens are reclaimed under this client_id. A restarted server gives another one.
  wire::ClientId reclaimed_under_;
};

}  // namespace dafs::client
