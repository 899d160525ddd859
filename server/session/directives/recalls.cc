#include "server/session/directives/recalls.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "server/clients/client_name.h"
#include "server/session/directives/back_control.h"
#include "server/session/directives/callbacks.h"
#include "server/session/shared/pool.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/delegations/holder_values.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/parts/releases.h"

namespace dafs::server {

using wire::DafsStatus;

void Recalls::Start(Loop& loop) {
  loop_ = &loop;
  store_.delegations().SetRecaller([this](const Recall& recall) { Begin(recall); });
  store_.holder_values().SetAsker([this](const Delegation& delegation) { Ask(delegation); });
  store_.open_doubts().SetAsker([this](const Doubt& doubt) { Inquire(doubt, false); });
}

void Recalls::Resend(const wire::ClientId& client_id) {
  for (const Recall& recall : store_.delegations().RecallsOf(client_id)) Send(recall, false);
  for (const Doubt& doubt : store_.open_doubts().DoubtsOf(client_id)) Inquire(doubt, false);
}

void Recalls::Begin(const Recall& recall) {
  loop_->Post([this, recall, begun = Loop::Now()] { Watch(recall, begun); });
  if (!recall.has_holder) return;
  chores_.Submit([this, recall] { store_.releases().RevokeExpired(recall); });
  Send(recall, false);
}

void Recalls::Send(const Recall& recall, bool again) {
  const std::shared_ptr<BackControlRoute> route = callbacks_.RouteOf(recall.client_id);
  if (route == nullptr) return;  // see Resend
  route->loop.Post([this, route, recall, again] {
    if (route->channel == nullptr) return;
    wire::BcRecallArgs args;
    args.filehandle = store_.HandleOf(recall.key);
    args.state_id = recall.state_id;
    // Never `truncate`: the request that would truncate the file may still fail, and the client
    // would have dropped its data.
    route->channel->Send(args, [this, recall, again](absl::StatusOr<DafsStatus> answer) {
      OnAnswer(recall, again, answer);
    });
  });
}

void Recalls::OnAnswer(const Recall& recall, bool again, const absl::StatusOr<DafsStatus>& answer) {
  const bool is_unknown =
      answer.ok() && (*answer == DafsStatus::kBadHandle || *answer == DafsStatus::kBadStateId);
  if (!is_unknown || !store_.delegations().Holds(recall.state_id)) return;
  if (again) return End(recall);
  loop_->Post([this, recall] {
    loop_->RunAfter(kAgainAfter, [this, recall] {
      if (store_.delegations().Holds(recall.state_id)) Send(recall, true);
    });
  });
}

void Recalls::End(const Recall& recall) {
  chores_.Submit([this, recall] { store_.releases().RevokeDelegation(recall); });
}

// ---- Opens that a client may not know ----------------------------------------------------------

// A program may have to send its OPEN again before the client has the response, so a client that
// does not know the open has long to find out.
void Recalls::Inquire(const Doubt& doubt, bool again) {
  const std::shared_ptr<BackControlRoute> route = callbacks_.RouteOf(doubt.client_id);
  if (route == nullptr) return;  // see Resend
  route->loop.Post([this, route, doubt, again] {
    if (route->channel == nullptr) return;
    wire::BcRecallArgs args;
    args.filehandle = store_.HandleOf(doubt.key);
    args.state_id = doubt.state_id;
    route->channel->Send(args, [this, doubt, again](absl::StatusOr<DafsStatus> answer) {
      const bool is_unknown =
          answer.ok() && (*answer == DafsStatus::kBadHandle || *answer == DafsStatus::kBadStateId);
      if (!is_unknown) return;
      if (again) return chores_.Submit([this, doubt] { store_.releases().CloseUnknown(doubt); });
      loop_->Post([this, doubt] {
        loop_->RunAfter(std::min(recall_time_, kInquireAgainAfter), [this, doubt] {
          if (store_.open_doubts().Holds(doubt)) Inquire(doubt, true);
        });
      });
    });
  });
}

// ---- Time limits -------------------------------------------------------------------------------

absl::Time Recalls::OverdueSince(const Recall& recall) const {
  const Promises& promises = store_.promises();
  return promises.OverdueSince(promises.PromiseeOf(recall.client_id));
}

void Recalls::Watch(const Recall& recall, absl::Time begun) {
  if (!recall.has_holder) return ExpireAfter(recall_time_, recall, begun);
  const absl::Time since = OverdueSince(recall);
  if (since != absl::InfiniteFuture()) {
    return ExpireAfter(since + recall_time_ / 2 - Loop::Now(), recall, begun);
  }
  loop_->RunAfter(recall_time_ / 2, [this, recall, begun] { BeOverdue(recall, begun); });
}

void Recalls::ExpireAfter(absl::Duration time, const Recall& recall, absl::Time begun) {
  loop_->RunAfter(std::max(time, absl::ZeroDuration()),
                  [this, recall, begun] { Expire(recall, begun); });
}

// As with a change that a client does not acknowledge: the client must know that it cannot be
// called, before the delegation is revoked.
void Recalls::BeOverdue(const Recall& recall, absl::Time begun) {
  if (!store_.delegations().Holds(recall.state_id)) return;
  const absl::Time now = Loop::Now();
  store_.promises().Overdue(store_.promises().PromiseeOf(recall.client_id), now);
  ExpireAfter(std::min(OverdueSince(recall), now) + recall_time_ / 2 - now, recall, begun);
}

void Recalls::Expire(const Recall& recall, absl::Time begun) {
  if (!store_.delegations().Holds(recall.state_id)) return;
  if (!recall.has_holder) return End(recall);
  const Promisee promisee = store_.promises().PromiseeOf(recall.client_id);
  const absl::Time now = Loop::Now();
  const absl::Duration left = begun + recall_time_ - now;
  const absl::Duration relies_for = OverdueSince(recall) + recall_time_ / 2 - now;
  // The client has come back meanwhile; it may be overdue again since then.
  if (left > absl::ZeroDuration() && relies_for > absl::ZeroDuration()) {
    return ExpireAfter(std::min(left, relies_for), recall, begun);
  }
  if (relies_for <= absl::ZeroDuration()) callbacks_.Expired(promisee);
  store_.delegations().NoteRevoked(recall.state_id);
  LogWarning(absl::StrCat("client ", ClientName(recall.client_name),
                          ": did not return a delegation within ",
                          absl::FormatDuration(recall_time_),
                          " (--recall-time), for which a request waited; it is revoked, and what "
                          "the client has not written to the file is lost: check that machine "
                          "and the network to it"));
  End(recall);
}

// ---- BC_GETATTR --------------------------------------------------------------------------------

void Recalls::Ask(const Delegation& delegation) {
  const wire::StateId state_id = delegation.state_id;
  loop_->Post([this, state_id] {
    loop_->RunAfter(kAnswerTime, [this, state_id] {
      store_.holder_values().SetReported(state_id, {}, Loop::Now());
    });
  });
  const std::shared_ptr<BackControlRoute> route = callbacks_.RouteOf(delegation.client_id);
  if (route == nullptr) return store_.holder_values().SetReported(state_id, {}, Loop::Now());
  route->loop.Post([this, route, delegation, state_id] {
    wire::BcGetattrArgs args;
    args.filehandle = store_.HandleOf(delegation.key);
    args.attr_request_bitmap = wire::kFattrChange | wire::kFattrObjectSize | wire::kFattrTimeModify;
    if (route->channel == nullptr) return OnAttributes(state_id, DafsStatus::kDelay, {});
    route->channel->Ask(args, [this, state_id](const absl::StatusOr<DafsStatus>& answer,
                                               const wire::BcGetattrRes& res) {
      OnAttributes(state_id, answer, res);
    });
  });
}

void Recalls::OnAttributes(const wire::StateId& state_id, const absl::StatusOr<DafsStatus>& answer,
                           const wire::BcGetattrRes& res) {
  ReportedValues values;
  if (answer.ok() && *answer == DafsStatus::kOk) {
    const wire::FileAttributes& reported = res.obj_attributes;
    const auto has = [&](uint64_t bit) { return (reported.valid & bit) != 0; };
    if (has(wire::kFattrChange)) values.change = reported.change;
    if (has(wire::kFattrObjectSize)) values.size = reported.object_size;
    if (has(wire::kFattrTimeModify)) values.time_modify = reported.time_modify;
  }
  store_.holder_values().SetReported(state_id, values, Loop::Now());
}

}  // namespace dafs::server
