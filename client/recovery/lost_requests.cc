#include "client/recovery/lost_requests.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recovery/reclaim.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::client {
namespace {

// The permanent name of the open that `call` made.
std::optional<wire::StateId> OpenedBy(const CallBase& call) {
  if (!call.ok() || wire::InfoOf(call.proc()).state_id_after != wire::Current::kFromResult) {
    return std::nullopt;
  }
  Current current;
  call.PassOn(current);
  return current.state_id;
}

absl::Status FailUnknownOutcome(const SessionKeeper& session_keeper, const CallBase& call,
                                const absl::Status& why) {
  std::string text = absl::StrCat(Text(wire::Name(call.proc())),
                                  ": not known whether the server executed it: ", why.message());
  LogError(absl::StrCat(session_keeper.name(), ": ", text));
  return absl::UnknownError(text);
}

}  // namespace

Task<absl::StatusOr<LostRequests::Next>> LostRequests::Resolve(std::span<CallBase* const> chain,
                                                               absl::Status why,
                                                               absl::Time deadline) {
  ResponseCaches::Claim claim(caches_, chain);
  Task<absl::StatusOr<Next>> task = ResolveClaimed(chain, std::move(why), deadline);
  absl::StatusOr<Next> next = co_await task;
  if (!next.ok()) co_return next;
  for (const CallBase* call : chain) reissued_ += call->is_out() ? 1 : 0;
  Task<absl::Status> reclaiming = ReclaimFound(chain, deadline);
  CO_RETURN_IF_ERROR(co_await reclaiming);
  co_return next;
}

Task<absl::Status> LostRequests::ReclaimFound(std::span<CallBase* const> chain,
                                              absl::Time deadline) {
  for (const CallBase* call : chain) {
    const std::optional<wire::StateId> open = OpenedBy(*call);
    if (!open.has_value()) continue;
    Task<absl::StatusOr<Session*>> ready = session_keeper_.Ready(deadline);
    absl::StatusOr<Session*> session = co_await ready;
    if (!session.ok()) co_return session.status();
    // A server that did not restart knows the open, and would refuse the claim.
    const wire::ClientId client_id = (*session)->negotiated().client_id;
    if (client_.opens().StateIdOf(*open, client_id).has_value()) continue;
    Task<absl::Status> task = reclaim_->ReclaimOpen(*open);
    absl::Status status = co_await task;
    // Other errors are reported by the next use of the open.
    if (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) co_return status;
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<LostRequests::Next>> LostRequests::ResolveClaimed(
    std::span<CallBase* const> chain, absl::Status why, absl::Time deadline) {
  for (size_t i = 0; i < chain.size(); ++i) {
    CallBase& call = *chain[i];
    if (call.ok()) continue;
    if (!call.is_out()) break;  // it failed or was not sent, so no later member was executed
    if (!call.xid.cached && !call.idempotent()) {
      co_return FailUnknownOutcome(session_keeper_, call, why);
    }
    // Query also a change without a cached response, so that the server ends the old
    // session: executed late, it would undo what follows its repetition.
    if (!call.xid.cached && !wire::ModifiesState(call.info().category)) {
      Task<absl::StatusOr<bool>> task = AnyExecuted(chain.subspan(i + 1), deadline);
      absl::StatusOr<bool> executed = co_await task;
      if (!executed.ok()) co_return executed.status();
      co_return *executed ? Next::kWhole : Next::kRest;
    }
    Task<absl::StatusOr<RequestOutcome>> task = Ask(call, deadline);
    absl::StatusOr<RequestOutcome> outcome = co_await task;
    if (!outcome.ok()) co_return outcome.status();
    if (*outcome == RequestOutcome::kAnswered && call.ok()) continue;
    // The server drops a response when the client has it. So it was executed.
    if (*outcome == RequestOutcome::kNotExecuted && call.was_answered)
      outcome = RequestOutcome::kForgotten;
    // Spec gap: 5.2.4 requires a cache that survives a failure of the server. If the server lost
    // its cache, only idempotent requests are issued again.
    if (*outcome == RequestOutcome::kForgotten && !call.idempotent()) {
      co_return FailUnknownOutcome(session_keeper_, call, why);
    }
    break;
  }
  co_return Next::kRest;
}

// Whether a member of `chain` was executed. After a bulk fetch (4.3.1) only members that modify
// lock state can have been. Executed members have their response afterwards.
Task<absl::StatusOr<bool>> LostRequests::AnyExecuted(std::span<CallBase* const> chain,
                                                     absl::Time deadline) {
  for (CallBase* call : chain) {
    if (!call->is_out() || !call->xid.cached) continue;
    Task<absl::StatusOr<RequestOutcome>> task = Ask(*call, deadline);
    absl::StatusOr<RequestOutcome> outcome = co_await task;
    if (!outcome.ok()) co_return outcome.status();
    if (*outcome == RequestOutcome::kAnswered) co_return true;
  }
  co_return false;
}

Task<absl::StatusOr<RequestOutcome>> LostRequests::Ask(CallBase& call, absl::Time deadline) {
  Task<absl::StatusOr<RequestOutcome>> asking =
      QueryOutcome(session_keeper_, wait_tracker_, call, deadline);
  absl::StatusOr<RequestOutcome> outcome = co_await asking;
  if (outcome.ok() && *outcome == RequestOutcome::kAnswered) ++fetched_;
  co_return outcome;
}

}  // namespace dafs::client
