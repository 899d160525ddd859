#include "client/recovery/request_outcome.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/exchange/in_flight.h"
#include "client/recovery/calls/retry_pause.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

constexpr absl::Duration kLongestDelay = absl::Seconds(2);
constexpr int kMostDamaged = 8;  // exchanges with a bad checksum

// Answers about the fetch itself (WIRE 9.4). Any other is the stored response.
bool IsAboutFetch(DafsStatus answer) {
  switch (answer) {
    case DafsStatus::kNoXidMatch:
    case DafsStatus::kUnknownSession:
    case DafsStatus::kBadSession:
    case DafsStatus::kChainBroken:
      return true;
    default:
      return false;
  }
}

// FETCH_RESPONSE. Its result is the result of the call `of`.
class FetchCall : public Call<wire::FetchResponseArgs> {
 public:
  explicit FetchCall(CallBase& of) : of_(of) {}
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      DafsStatus answer) override {
    if (IsAboutFetch(answer)) return absl::OkStatus();
    absl::Status decoded = of_.Decode(message, order, answer);
    if (decoded.ok() && of_.in_flight != nullptr) {
      of_.in_flight->Answered(of_, message, order, answer);
    }
    return decoded;
  }

 private:
  CallBase& of_;
};

// The chain that asks about one call.
class OutcomeQuery {
 public:
  explicit OutcomeQuery(CallBase& call) : fetch_(call) {
    AskFor(call, check_.args);
    AskFor(call, fetch_.args);
  }
  std::span<CallBase* const> chain() const { return chain_; }
  bool damaged() const { return check_.damaged || fetch_.damaged; }
  bool check_ok() const { return check_.ok(); }
  DafsStatus answer() const { return check_.ok() ? fetch_.status : check_.status; }
  // The authentication method of the session that asked.
  wire::AuthType auth() const { return check_.xid.auth; }

 private:
  template <class Args>
  static void AskFor(const CallBase& call, Args& args) {
    args.session_id = call.xid.session_id;
    args.xid_stream = call.xid.stream_id;
    args.xid_seq = call.xid.seq_number;
    args.procedure = static_cast<uint32_t>(call.proc());
  }

  Call<wire::CheckResponseArgs> check_;
  FetchCall fetch_;
  CallBase* const chain_[2] = {&check_, &fetch_};
};

Task<absl::Status> Send(SessionKeeper& session_keeper, OutcomeQuery& query, absl::Time deadline) {
  Task<absl::StatusOr<Session*>> ready = session_keeper.Ready(deadline);
  absl::StatusOr<Session*> session = co_await ready;
  if (!session.ok()) co_return session.status();
  Task<absl::Status> task = (*session)->Run(wire::CredHandle(), query.chain(), deadline);
  absl::Status status = co_await task;
  co_return status;
}

// Whether the old session counts as another client's (R50). It always does if the client now uses a
// different authentication method. In that case the server has been restarted, since it cannot drop
// a method otherwise.
bool IsOfOtherClient(const SessionKeeper& session_keeper, const CallBase& call,
                     const OutcomeQuery& query) {
  if (query.answer() != DafsStatus::kBadSession || call.xid.auth == query.auth()) {
    return false;
  }
  LogWarning(absl::StrCat(session_keeper.name(), ": ", Text(wire::Name(call.proc())),
                          ": the server does not report on the old session, "
                          "because the new one uses another authentication method"));
  return true;
}

}  // namespace

RequestOutcome OutcomeOf(bool check_ok, DafsStatus answer) {
  if (check_ok && !IsAboutFetch(answer)) return RequestOutcome::kAnswered;
  switch (answer) {
    case DafsStatus::kNoXidMatch:
    case DafsStatus::kChainBroken:  // an earlier member failed
      return RequestOutcome::kNotExecuted;
    case DafsStatus::kBadSession:
    case DafsStatus::kDelay:
    case DafsStatus::kGrace:
    case DafsStatus::kResource:
      return RequestOutcome::kUnsettled;
    default:  // UNKNOWN_SESSION: the server restarted without its cache; NOTSUPP: it has no cache
      return RequestOutcome::kForgotten;
  }
}

Task<absl::StatusOr<RequestOutcome>> QueryOutcome(SessionKeeper& session_keeper,
                                                  WaitTracker& wait_tracker, CallBase& call,
                                                  absl::Time deadline) {
  RetryPause pause(session_keeper, wait_tracker, ServerDelay(kLongestDelay));
  for (int damaged = 0;;) {
    OutcomeQuery query(call);
    Task<absl::Status> asking = Send(session_keeper, query, deadline);
    absl::Status status = co_await asking;
    if (absl::IsUnavailable(status)) {  // this session is lost too, or the response was damaged
      if (query.damaged() && ++damaged > kMostDamaged) co_return status;
      continue;
    }
    if (!status.ok()) co_return status;
    const DafsStatus answer = query.answer();
    // Either the query was damaged, or CHKSUM is the stored response. In the second case every
    // retry gives the same response.
    if (answer == DafsStatus::kChksum && ++damaged <= kMostDamaged) continue;
    RequestOutcome outcome = OutcomeOf(query.check_ok(), answer);
    if (IsOfOtherClient(session_keeper, call, query)) outcome = RequestOutcome::kForgotten;
    if (outcome == RequestOutcome::kAnswered) {
      call.answered = true;
      call.status = answer;
    }
    if (outcome != RequestOutcome::kUnsettled) co_return outcome;
    // The call must not fail, nor be issued a second time meanwhile.
    std::string what =
        absl::StrCat(Text(wire::Name(call.proc())), ": the server still settles the old session (",
                     Text(wire::Name(answer)), ")");
    if (pause.IsTooLate(deadline)) co_return absl::DeadlineExceededError(what);
    Task<absl::Status> waiting = pause.Wait(std::move(what));
    CO_RETURN_IF_ERROR(co_await waiting);
  }
}

}  // namespace dafs::client
