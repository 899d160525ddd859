#include "client/recovery/lost_requests.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recovery/reclaim.h"
#include "client/session/connection.h"
#include "client/session/session.h"
#include "runtime/log.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

constexpr absl::Duration kDelayLeast = absl::Milliseconds(10);
constexpr absl::Duration kDelayMost = absl::Seconds(2);
constexpr int kMostDamaged = 8;  // exchanges with a bad checksum
// Caches that wait to be discarded. More accumulate only if the server refuses to discard.
constexpr size_t kMostUseless = 64;
constexpr int kMostDiscards = 60;  // tries for one cache

// FETCH_RESPONSE. Its result is the result of the call `of`.
class FetchCall : public Call<wire::FetchResponseArgs> {
 public:
  explicit FetchCall(CallBase& of) : of_(of) {}
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      DafsStatus answer) override {
    switch (answer) {
      case DafsStatus::kNoXidMatch:  // about the fetch itself (WIRE 9.4), as the next three
      case DafsStatus::kUnknownSession:
      case DafsStatus::kBadSession:
      case DafsStatus::kChainBroken:
        return absl::OkStatus();
      default:
        return of_.Decode(message, order, answer);
    }
  }

 private:
  CallBase& of_;
};

template <class Args>
void AskFor(const CallBase& call, Args& args) {
  args.session_id = call.xid.session_id;
  args.xid_stream = call.xid.stream_id;
  args.xid_seq = call.xid.seq_number;
  args.procedure = static_cast<uint32_t>(call.proc());
}

bool IsOut(const CallBase& call) { return call.sent && !call.answered; }

// The client's own name for the open that `call` made.
std::optional<wire::StateId> OpenedBy(const CallBase& call) {
  if (!call.ok() || wire::InfoOf(call.proc()).state_id_after != wire::Current::kFromResult) {
    return std::nullopt;
  }
  Current current;
  call.PassOn(current);
  return current.state_id;
}

absl::Status UnknownFate(const Connection& connection, const CallBase& call,
                         const absl::Status& why) {
  std::string text = absl::StrCat(Text(wire::Name(call.proc())),
                                  ": not known whether it was carried out: ", why.message());
  LogError(absl::StrCat(connection.name(), ": ", text));
  return absl::UnknownError(text);
}

}  // namespace

// While it exists, the Response Cache that a chain may have to ask is not discarded.
class LostRequests::Claim {
 public:
  Claim(LostRequests& all, std::span<CallBase* const> chain) : all_(all) {
    for (const CallBase* call : chain) {
      if (!IsOut(*call) || !call->xid.cached) continue;
      session_id_ = call->xid.session_id;  // all members of a chain are sent on one session
      ++all_.claims_[session_id_];
      claimed_ = true;
      return;
    }
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() {
    if (!claimed_ || --all_.claims_[session_id_] > 0) return;
    all_.claims_.erase(session_id_);
    if (std::erase(all_.lost_, session_id_) == 0) return;
    all_.useless_.push_back(session_id_);
    all_.StartDiscard();
  }

 private:
  LostRequests& all_;
  wire::SessionId session_id_;
  bool claimed_ = false;
};

dat::Task<absl::StatusOr<LostRequests::Next>> LostRequests::Resolve(
    std::span<CallBase* const> chain, absl::Status why, absl::Time deadline) {
  Claim claim(*this, chain);
  dat::Task<absl::StatusOr<Next>> task = ResolveClaimed(chain, std::move(why), deadline);
  absl::StatusOr<Next> next = co_await task;
  if (!next.ok()) co_return next;
  for (const CallBase* call : chain) reissued_ += IsOut(*call) ? 1 : 0;
  dat::Task<absl::Status> reclaiming = ReclaimFound(chain, deadline);
  CO_RETURN_IF_ERROR(co_await reclaiming);
  co_return next;
}

dat::Task<absl::Status> LostRequests::ReclaimFound(std::span<CallBase* const> chain,
                                                   absl::Time deadline) {
  for (const CallBase* call : chain) {
    const std::optional<wire::StateId> open = OpenedBy(*call);
    if (!open.has_value()) continue;
    dat::Task<absl::StatusOr<Session*>> ready = connection_.Ready(deadline);
    absl::StatusOr<Session*> session = co_await ready;
    if (!session.ok()) co_return session.status();
    // A server that did not restart knows the open, and would refuse the claim.
    const wire::ClientId client_id = (*session)->negotiated().client_id;
    if (client_.opens().StateIdOf(*open, client_id).has_value()) continue;
    dat::Task<absl::Status> task = reclaim_->ReclaimOpen(*open);
    absl::Status status = co_await task;
    // Other errors are reported by the next use of the open.
    if (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) co_return status;
  }
  co_return absl::OkStatus();
}

dat::Task<absl::StatusOr<LostRequests::Next>> LostRequests::ResolveClaimed(
    std::span<CallBase* const> chain, absl::Status why, absl::Time deadline) {
  for (size_t i = 0; i < chain.size(); ++i) {
    CallBase& call = *chain[i];
    if (call.ok()) continue;
    if (!IsOut(call)) break;  // it failed or was not sent, so no later member was executed
    if (!call.xid.cached) {
      if (!call.idempotent()) co_return UnknownFate(connection_, call, why);
      dat::Task<absl::StatusOr<bool>> task = AnyExecuted(chain.subspan(i + 1), deadline);
      absl::StatusOr<bool> executed = co_await task;
      if (!executed.ok()) co_return executed.status();
      co_return *executed ? Next::kWhole : Next::kRest;
    }
    dat::Task<absl::StatusOr<Fate>> task = Ask(call, deadline);
    absl::StatusOr<Fate> fate = co_await task;
    if (!fate.ok()) co_return fate.status();
    if (*fate == Fate::kAnswered && call.ok()) continue;
    // Spec gap: 5.2.4 requires a cache that survives a failure of the server. If the server lost
    // its cache, only idempotent requests are issued again.
    if (*fate == Fate::kForgotten && !call.idempotent()) {
      co_return UnknownFate(connection_, call, why);
    }
    break;
  }
  co_return Next::kRest;
}

// Whether a member of `chain` was executed. After a bulk fetch (4.3.1) only members that modify
// lock state can have been. Executed members have their response afterwards.
dat::Task<absl::StatusOr<bool>> LostRequests::AnyExecuted(std::span<CallBase* const> chain,
                                                          absl::Time deadline) {
  for (CallBase* call : chain) {
    if (!IsOut(*call) || !call->xid.cached) continue;
    dat::Task<absl::StatusOr<Fate>> task = Ask(*call, deadline);
    absl::StatusOr<Fate> fate = co_await task;
    if (!fate.ok()) co_return fate.status();
    if (*fate == Fate::kAnswered) co_return true;
  }
  co_return false;
}

dat::Task<absl::StatusOr<LostRequests::Fate>> LostRequests::Ask(CallBase& call,
                                                                absl::Time deadline) {
  std::optional<Waits::Note> note;  // while the server still ends the old session
  absl::Duration delay = kDelayLeast;
  int damaged = 0;
  for (;;) {
    dat::Task<absl::StatusOr<Session*>> ready = connection_.Ready(deadline);
    absl::StatusOr<Session*> session = co_await ready;
    if (!session.ok()) co_return session.status();
    Call<wire::CheckResponseArgs> check;
    FetchCall fetch(call);
    AskFor(call, check.args);
    AskFor(call, fetch.args);
    CallBase* const chain[] = {&check, &fetch};
    dat::Task<absl::Status> task = (*session)->Run(wire::CredHandle(), chain, deadline);
    absl::Status status = co_await task;
    if (absl::IsUnavailable(status)) {
      if ((check.damaged || fetch.damaged) && ++damaged > kMostDamaged) co_return status;
      continue;  // this session is lost too, or the response was damaged
    }
    if (!status.ok()) co_return status;
    DafsStatus answer = check.ok() ? fetch.status : check.status;
    // Either the question was damaged, or CHKSUM is the stored response. In the second case every
    // retry gives the same answer.
    if (answer == DafsStatus::kChksum && ++damaged <= kMostDamaged) continue;
    if (check.ok() && answer != DafsStatus::kNoXidMatch && answer != DafsStatus::kUnknownSession &&
        answer != DafsStatus::kBadSession && answer != DafsStatus::kChainBroken) {
      call.answered = true;
      call.status = answer;
      ++fetched_;
      co_return Fate::kAnswered;
    }
    switch (answer) {
      case DafsStatus::kNoXidMatch:
      case DafsStatus::kChainBroken:  // an earlier member failed
        co_return Fate::kNotExecuted;
      case DafsStatus::kChksum:
        co_return Fate::kForgotten;
      // The server has not noticed the end of the old session, or still executes its requests: it
      // may execute the call at any time. The call must not fail, nor be issued a second time
      // meanwhile. So it waits.
      case DafsStatus::kBadSession:
        // Or the old session counts as another client's (R50). It always does if the client now
        // uses a different authentication method. In that case the server has been restarted, since
        // it cannot drop a method otherwise.
        if (call.xid.auth != check.xid.auth) {
          LogWarning(absl::StrCat(connection_.name(), ": ", Text(wire::Name(call.proc())),
                                  ": the server does not report on the old session, "
                                  "because the new one uses another authentication method"));
          co_return Fate::kForgotten;
        }
        break;
      case DafsStatus::kDelay:
      case DafsStatus::kGrace:
      case DafsStatus::kResource:
        break;
      default:  // UNKNOWN_SESSION: the server restarted without its cache; NOTSUPP: it has no cache
        co_return Fate::kForgotten;
    }
    const std::string what =
        absl::StrCat(Text(wire::Name(call.proc())), ": the server still settles the old session (",
                     Text(wire::Name(answer)), ")");
    if (dat::Loop::Now() + delay > deadline) co_return absl::DeadlineExceededError(what);
    if (!note.has_value()) note.emplace(waits_, what);
    waits_.Look(dat::Loop::Now());
    dat::Task<absl::Status> pause = connection_.Pause(delay);
    CO_RETURN_IF_ERROR(co_await pause);
    delay = std::min(delay * 2, kDelayMost);
  }
}

// ---- Discarding caches ----------------------------------------------------------------------

void LostRequests::SessionLost(const wire::SessionId& session_id) {
  if (useless_.size() >= kMostUseless) useless_.erase(useless_.begin());
  (claims_.contains(session_id) ? lost_ : useless_).push_back(session_id);
}

void LostRequests::SessionReady() { StartDiscard(); }

void LostRequests::StartDiscard() {
  if (discarding_ || useless_.empty() || connection_.session() == nullptr) return;
  discarding_ = true;
  dat::Start(Discard());
}

dat::Task<void> LostRequests::Discard() {
  int tries = 0;
  while (!useless_.empty()) {
    Session* session = connection_.session();
    if (session == nullptr) break;  // the next SessionReady starts Discard again
    Call<wire::DiscardResponsesArgs> discard;
    discard.args.session_id = useless_.back();
    CallBase* const chain[] = {&discard};
    dat::Task<absl::Status> task =
        session->Run(wire::CredHandle(), chain, dat::Loop::Now() + client_.options().silence);
    absl::Status status = co_await task;
    // If the server cannot discard the cache now, it drops it with the client's next instance or on
    // expiry.
    if (!status.ok()) break;
    // BAD_SESSION: the server has not noticed the end of the old session.
    const bool later =
        discard.status == DafsStatus::kBadSession || discard.status == DafsStatus::kDelay;
    if (later && ++tries < kMostDiscards) {
      dat::Task<absl::Status> pause = connection_.Pause(kDelayMost);
      if (!(co_await pause).ok()) break;
      continue;
    }
    tries = 0;
    std::erase(useless_, discard.args.session_id);
  }
  discarding_ = false;
}

}  // namespace dafs::client
