// Recalls of delegations: sends BC_RECALL, and revokes what is not returned in time. Also
// BC_GETATTR. Spec: 6.6.3, 6.6.4; WIRE 9.6 (the Back-control Channel that PROMISES names).
//
// A delegation that is not returned within recall-time is revoked. A client that has not answered a
// recall or an announcement in half of recall-time relies on nothing after the other half. So its
// other delegations are revoked at the same time, and later ones at once: it delays others for
// recall-time once, not once per change, until it sends PROMISES again. A client that answers
// BADHANDLE or BAD_STATEID does not know it: perhaps the response that grants it is on its way, so
// the recall is sent again. A client with an expired lease is not waited for. A client without a
// channel is recalled when it sends PROMISES again.
//
// Also asks, by BC_RECALL, about opens that a client may not know (OpenDoubts). No request
// waits for these: one that the client does not know ends, and without an answer nothing changes.
//
// Thread-safe. Nothing blocks.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"
#include "server/store/holdings/delegations/delegation.h"
#include "server/store/holdings/open_doubts.h"
#include "server/store/store.h"
#include "wire/messages/back_control.h"
#include "wire/protocol/status.h"

namespace dafs::server {

class Callbacks;
class Pool;

class Recalls {
 public:
  // All outlive this. `chores` closes what is revoked.
  Recalls(Store& store, Callbacks& callbacks, Pool& chores, absl::Duration recall_time)
      : store_(store), callbacks_(callbacks), chores_(chores), recall_time_(recall_time) {}
  Recalls(const Recalls&) = delete;
  Recalls& operator=(const Recalls&) = delete;

  // Call once, before the first connection. `loop` runs the timers, and no request after its end.
  void Start(Loop& loop);

  // The client has sent PROMISES: sends again what is being recalled from it, and asks again.
  void Resend(const wire::ClientId& client_id);

 private:
  using Recall = DelegationRecall;
  // A recall is repeated after this time if the client did not know the delegation.
  static constexpr absl::Duration kAgainAfter = absl::Seconds(1);
  // The most between two questions about an open.
  static constexpr absl::Duration kInquireAgainAfter = absl::Seconds(10);
  // GETATTR waits this long for the holder, then returns what the server knows.
  static constexpr absl::Duration kAnswerTime = absl::Seconds(1);

  using Doubt = OpenDoubts::Doubt;

  void Begin(const Recall& recall);
  void Send(const Recall& recall, bool again);
  void OnAnswer(const Recall& recall, bool again, const absl::StatusOr<wire::DafsStatus>& answer);
  void End(const Recall& recall);
  // On the thread of the loop. `begun`: when the recall began.
  void Watch(const Recall& recall, absl::Time begun);
  void BeOverdue(const Recall& recall, absl::Time begun);
  void ExpireAfter(absl::Duration time, const Recall& recall, absl::Time begun);
  void Expire(const Recall& recall, absl::Time begun);
  absl::Time OverdueSince(const Recall& recall) const;
  void Inquire(const Doubt& doubt, bool again);
  void Ask(const Delegation& delegation);
  void OnAttributes(const wire::StateId& state_id, const absl::StatusOr<wire::DafsStatus>& answer,
                    const wire::BcGetattrRes& res);

  Store& store_;
  Callbacks& callbacks_;
  Pool& chores_;
  const absl::Duration recall_time_;
  Loop* loop_ = nullptr;  // set before the first connection
};

}  // namespace dafs::server
