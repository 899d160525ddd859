// Opens and locks that the server has lost: claimed again before anything else is done with them.
// Spec: 4.4.1.2 (crash recovery), 4.4.1.6 (a restarted server gives another client_id), 6.5.24
// (CLAIM_PREVIOUS).
//
// Each worker does it for itself when it meets a new client_id. That two of them claim the same
// open is harmless: one owner has one open of a file.
// Belongs to the thread of its loop. Nothing blocks.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/recovery/runner.h"
#include "client/state/opens.h"
#include "runtime/task.h"
#include "runtime/wait_list.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Committer;

class Reclaim {
 public:
  // Both outlive it.
  Reclaim(Runner& runner, Committer& committer);

  // There is a session: starts what is to be done, waits for nothing.
  void SessionReady(const Session& session);
  void Shutdown() { done_.WakeAll(absl::CancelledError("the mount ends")); }

  // Whether the server of this client_id knows all opens.
  bool IsDone(const wire::ClientId& client_id) const { return reclaimed_under_ == client_id; }
  // OK: look again.
  dat::Task<absl::Status> Await(absl::Time deadline);
  // Whether what the server lost of the data is being written again.
  bool restoring() const;
  dat::Task<absl::Status> AwaitRestored(absl::Time deadline);

  // OK: `open` has a name at the server again, or is gone. Its own error if it is lost.
  dat::Task<absl::Status> ReclaimOpen(wire::StateId open);

 private:
  void Start();
  dat::Task<void> ReclaimAll();
  dat::Task<absl::Status> ReclaimUnder(wire::ClientId client_id);
  dat::Task<absl::Status> OpenAgain(wire::StateId open, Opens::Entry entry,
                                    wire::DafsStatus refused);
  dat::Task<void> TakeReclaimed(wire::StateId open, Opens::Entry entry, wire::StateId state_id,
                                wire::ClientId client_id);
  void GiveUpOpen(const wire::StateId& open, const absl::Status& why);
  // 5.2.5: a client asks for nothing else before it has reclaimed its locks. So the server knows by
  // any request that all are, and lets nobody wait for more of them; a mount that nobody uses would
  // send none.
  dat::Task<void> AskForSomething();
  // Reclaims the record locks that `open` protects, under its new `state_id`, before it is used by
  // that name, and once more for what another worker has done meanwhile. The error, if one of them
  // is lost.
  dat::Task<absl::Status> ReclaimLocks(wire::StateId open, wire::StateId state_id,
                                       wire::LockRanges* claimed);
  bool HoldsLocks(const wire::StateId& open) const;

  Runner& runner_;
  Committer& committer_;
  Client& client_;
  Connection& connection_;
  WaitList done_;  // who waits for it, or for the data
  bool reclaiming_ = false;
  // The client_id under which the server knows all opens; another one is a restarted server's.
  wire::ClientId reclaimed_under_;
};

}  // namespace dafs::client
