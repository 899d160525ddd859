#include "client/recovery/request_executor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/exchange/call.h"
#include "client/exchange/in_flight.h"
#include "client/exchange/report.h"
#include "client/recovery/calls/chain_members.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/calls/refusal.h"
#include "client/recovery/calls/retry_pause.h"
#include "client/recovery/reclaim.h"
#include "client/recovery/root_renewal.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"

namespace dafs::client {

namespace {

absl::Status WasKilled() { return absl::UnavailableError("mount.dafs was killed"); }

}  // namespace

RequestExecutor::RequestExecutor(Client& client, Loop& loop, SessionKeeper& session_keeper)
    : client_(client),
      loop_(loop),
      session_keeper_(session_keeper),
      wait_tracker_(client.options().server_name),
      lost_(client, session_keeper, wait_tracker_),
      registration_(client, loop, session_keeper),
      owner_lookups_(client.owners(), loop) {}

absl::Time RequestExecutor::DeadlineFromNow() const {
  const ClientOptions& options = client_.options();
  return options.soft ? Loop::Now() + options.timeout : absl::InfiniteFuture();
}

void RequestExecutor::Fill(WorkerReport& report) const {
  report.fetched = lost_.fetched();
  report.reissued = lost_.reissued();
  if (auto longest = wait_tracker_.longest(Loop::Now())) {
    report.waiting = longest->what;
    report.waiting_for = longest->age;
  }
}

// The state of one operation across its retries.
struct RequestExecutor::Attempt {
  const Identity* user;  // null: the session's own credentials
  Gate gate;
  absl::Time deadline;
  RetryPause pause;
  wire::CredHandle cred = {};
  Remedies remedies = {};
  bool begun = false;  // some members of the chain were executed
  bool issued = false;
  const uint64_t operation;  // of OperationClock
  SentOwners owners = {};
  absl::Status unnamed = absl::OkStatus();  // why no owners can be sent
};

// Adds its lifetime to the waits of an operation.
class RequestExecutor::TimedWait {
 public:
  TimedWait(OperationClock& clock, uint64_t operation)
      : clock_(clock),
        operation_(operation),
        since_(operation != 0 ? Loop::Now() : absl::InfinitePast()) {}
  ~TimedWait() {
    if (operation_ != 0) clock_.AddWait(operation_, Loop::Now() - since_);
  }
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

 private:
  OperationClock& clock_;
  const uint64_t operation_;
  const absl::Time since_;
};

Task<absl::Status> RequestExecutor::Run(const Identity* user, std::span<CallBase* const> chain) {
  return RunGated(Gate::kReclaimed, user, chain);
}

Task<absl::Status> RequestExecutor::RunGated(Gate gate, const Identity* user,
                                             std::span<CallBase* const> whole) {
  Attempt attempt{.user = user,
                  .gate = gate,
                  .deadline = DeadlineFromNow(),
                  .pause = RetryPause(session_keeper_, wait_tracker_),
                  .operation = operation_clock_.current()};
  const OriginalFlags flags(whole);
  std::span<CallBase* const> chain = whole;
  if (gate == Gate::kReclaimed) {
    auto* const operation = static_cast<InFlightOperation*>(co_await GetOperation());
    if (operation != nullptr && operation->Begin(whole)) {
      Task<absl::StatusOr<Chain>> finding = AfterKill(*operation, attempt, whole);
      absl::StatusOr<Chain> left = co_await finding;
      if (!left.ok()) co_return left.status();
      chain = *left;
    }
  }
  while (!chain.empty()) {
    Session* session = TryPrepare(attempt, chain);
    if (session == nullptr) {
      const TimedWait wait(operation_clock_, attempt.operation);
      Task<absl::Status> waiting = Prepare(attempt, chain);
      CO_RETURN_IF_ERROR(co_await waiting);
      continue;
    }
    if (coalesces_) {
      for (CallBase* call : chain) call->leaves_with_turn = true;
    }
    if (std::exchange(attempt.issued, true)) NoteRetry(chain);
    Task<absl::Status> exchange = session->Run(attempt.cred, chain, attempt.deadline);
    absl::Status status = co_await exchange;  // the session may be destroyed now
    if (attempt.operation != 0) operation_clock_.AddExchange(attempt.operation, chain);
    if (AnsweredWell(chain) == chain.size()) break;
    if (absl::IsUnavailable(status)) {
      const TimedWait wait(operation_clock_, attempt.operation);
      Task<absl::StatusOr<LostRequests::Next>> finding =
          AfterLoss(attempt, chain, std::move(status));
      absl::StatusOr<LostRequests::Next> next = co_await finding;
      if (!next.ok()) co_return next.status();
      if (*next == LostRequests::Next::kWhole) {
        flags.Restore(whole);
        chain = whole;
        continue;
      }
    } else if (!status.ok()) {
      co_return status;
    }
    const TimedWait wait(operation_clock_, attempt.operation);
    Task<absl::StatusOr<Chain>> deciding = AfterAnswers(attempt, chain);
    absl::StatusOr<Chain> left = co_await deciding;
    if (!left.ok()) co_return left.status();
    chain = *left;
  }
  std::vector<OwnerQuestion> ask;
  owner_lookups_.ToNumbers(whole, &ask);
  if (!ask.empty()) {
    const TimedWait wait(operation_clock_, attempt.operation);
    Task<absl::Status> asking = NumberOwners(attempt, whole, std::move(ask));
    CO_RETURN_IF_ERROR(co_await asking);
  }
  co_return absl::OkStatus();
}

// Replaces the names in results of `chain` that need the answers of `ask`.
Task<absl::Status> RequestExecutor::NumberOwners(const Attempt& attempt, Chain chain,
                                                 std::vector<OwnerQuestion> ask) {
  Task<absl::Status> asking = owner_lookups_.Ask(std::move(ask), attempt.deadline);
  CO_RETURN_IF_ERROR(co_await asking);
  owner_lookups_.ToNumbers(chain, nullptr);
  co_return absl::OkStatus();
}

// Puts names into the arguments of `chain`, if the server prefers them. Returns false if the
// operation must ask for them first, or fails with attempt.unnamed.
bool RequestExecutor::NameOwners(Attempt& attempt, Chain chain, uint64_t extensions) {
  attempt.owners.Restore();
  attempt.unnamed = absl::OkStatus();
  if ((extensions & wire::kExtensionOwnerNames) == 0) return true;
  attempt.unnamed = owner_lookups_.ToNames(chain, attempt.owners);
  return attempt.unnamed.ok() && attempt.owners.ask.empty();
}

// Returns the members of `chain` that are still to be sent. Empty: the operation has ended.
Task<absl::StatusOr<RequestExecutor::Chain>> RequestExecutor::AfterAnswers(Attempt& attempt,
                                                                           Chain chain) {
  const size_t done = AnsweredWell(chain);
  if (done == chain.size()) co_return Chain();
  attempt.begun |= done > 0;
  if (chain[done]->answered) {
    Task<absl::StatusOr<bool>> deciding = AfterRefusal(attempt, chain, done);
    absl::StatusOr<bool> again = co_await deciding;
    if (!again.ok()) co_return again.status();
    if (!*again) co_return Chain();
  }
  co_return Rest(chain, done);
}

void RequestExecutor::NoteRetry(std::span<CallBase* const> chain) {
  for (const CallBase* call : chain) ++session_keeper_.totals()[call->proc()].retries;
}

bool RequestExecutor::AwaitsData(const Attempt& attempt, std::span<CallBase* const> chain) const {
  return reclaim_->restoring() && !attempt.begun && !IsOfData(chain);
}

// Returns the session and prepares `chain` for it. Returns null if the operation must wait first.
Session* RequestExecutor::TryPrepare(Attempt& attempt, std::span<CallBase* const> chain) {
  Session* session = session_keeper_.session();
  if (session == nullptr) return nullptr;
  const Negotiated& negotiated = session->negotiated();
  if (attempt.gate == Gate::kReclaimed &&
      (!reclaim_->IsDone(negotiated.client_id) || AwaitsData(attempt, chain))) {
    return nullptr;
  }
  // Spec 3.1.1.1.2: an untrusted client uses only the session's own credentials.
  attempt.cred = wire::CredHandle();
  if (attempt.user != nullptr && negotiated.trusted) {
    auto known = client_.credentials().Find(negotiated.client_id, *attempt.user);
    if (!known.has_value()) return nullptr;
    attempt.cred = *known;
  }
  if (!NameOwners(attempt, chain, negotiated.extensions)) return nullptr;
  if (client_.root().renewed()) NameRoot(chain, client_.root());
  return NameOpens(chain, client_.opens(), negotiated.client_id).has_value() ? nullptr : session;
}

// Waits for the first condition that TryPrepare found missing.
Task<absl::Status> RequestExecutor::Prepare(Attempt& attempt, std::span<CallBase* const> chain) {
  Session* session = session_keeper_.session();
  if (session == nullptr) {
    Task<absl::StatusOr<Session*>> task = session_keeper_.Ready(attempt.deadline);
    absl::StatusOr<Session*> ready = co_await task;
    co_return ready.status();
  }
  const wire::ClientId client_id = session->negotiated().client_id;
  if (attempt.gate == Gate::kReclaimed && !reclaim_->IsDone(client_id)) {
    Task<absl::Status> task = reclaim_->Await(attempt.deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (attempt.gate == Gate::kReclaimed && AwaitsData(attempt, chain)) {
    Task<absl::Status> task = reclaim_->AwaitRestored(attempt.deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (attempt.user != nullptr && session->negotiated().trusted &&
      !client_.credentials().Find(client_id, *attempt.user).has_value()) {
    Task<absl::Status> task = registration_.Register(*attempt.user, attempt.deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (!attempt.unnamed.ok()) co_return attempt.unnamed;
  if (!attempt.owners.ask.empty()) {
    attempt.owners.asked = true;
    Task<absl::Status> task =
        owner_lookups_.Ask(std::exchange(attempt.owners.ask, {}), attempt.deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (std::optional<wire::StateId> unknown = NameOpens(chain, client_.opens(), client_id)) {
    Task<absl::Status> task = reclaim_->ReclaimOpen(*unknown);
    absl::Status status = co_await task;
    co_return status;
  }
  co_return absl::OkStatus();
}

// Spec 5.2.5: the old session's Response Cache shows which members were executed.
Task<absl::StatusOr<LostRequests::Next>> RequestExecutor::AfterLoss(
    Attempt& attempt, std::span<CallBase* const> chain, absl::Status why) {
  const bool was_damaged = AnyDamaged(chain);
  if (was_damaged && !attempt.remedies.Allow(Remedy::kSendAgain)) {
    co_return absl::DataLossError(absl::StrCat(NamesOf(chain), ": ", why.message()));
  }
  if (Session* session = session_keeper_.session();
      session != nullptr && was_damaged &&
      session->negotiated().session_id == chain.front()->xid.session_id) {
    // Only the response is lost; the session is alive. A Response Cache is available only after its
    // session ended. So the session is given up, unless every member can be issued again.
    const CallBase* unknown = FateUnknown(chain.subspan(AnsweredWell(chain)));
    const bool goes_on = std::any_of(chain.begin(), chain.end(),
                                     [](const CallBase* call) { return call->outlives_answer(); });
    if (unknown == nullptr && !goes_on) co_return LostRequests::Next::kRest;
    if (goes_on || unknown->xid.cached) {
      session->GiveUp(absl::UnavailableError("the response to a modifying request is damaged"));
    }
  }
  Task<absl::StatusOr<LostRequests::Next>> task =
      lost_.Resolve(chain, std::move(why), attempt.deadline);
  absl::StatusOr<LostRequests::Next> next = co_await task;
  co_return next;
}

Task<absl::Status> RequestExecutor::FindOutcome(std::span<CallBase* const> chain) {
  Task<absl::StatusOr<LostRequests::Next>> task =
      lost_.Resolve(chain, WasKilled(), absl::InfiniteFuture());
  absl::StatusOr<LostRequests::Next> next = co_await task;
  co_return next.status();
}

// Finds out what the server did with the requests of `chain` that a killed process has sent.
// Returns as AfterAnswers.
Task<absl::StatusOr<RequestExecutor::Chain>> RequestExecutor::AfterKill(
    const InFlightOperation& operation, Attempt& attempt, Chain chain) {
  if (operation.contradicts()) {
    absl::Status unknown = absl::UnknownError(
        absl::StrCat(NamesOf(chain),
                     ": not known whether the server executed it: mount.dafs was killed, and its "
                     "record of the request is damaged or of another request"));
    LogError(absl::StrCat(session_keeper_.name(), ": ", unknown.message(), "; it fails with EIO"));
    co_return unknown;
  }
  Task<absl::StatusOr<LostRequests::Next>> task =
      lost_.Resolve(chain, WasKilled(), attempt.deadline);
  absl::StatusOr<LostRequests::Next> next = co_await task;
  if (!next.ok()) co_return next.status();
  Task<absl::StatusOr<Chain>> deciding = AfterAnswers(attempt, chain);
  absl::StatusOr<Chain> left = co_await deciding;
  co_return left;
}

// chain[done] was refused. Returns true if it is to be issued again.
Task<absl::StatusOr<bool>> RequestExecutor::AfterRefusal(Attempt& attempt,
                                                         std::span<CallBase* const> chain,
                                                         size_t done) {
  CallBase& call = *chain[done];
  const Remedy remedy = RemedyFor(call, attempt.user != nullptr, done == 0);
  if (attempt.gate == Gate::kImpatient && call.status == wire::DafsStatus::kDelay) co_return false;
  if (!attempt.remedies.Allow(remedy)) co_return false;
  switch (remedy) {
    case Remedy::kNone:
      co_return false;
    case Remedy::kSendAgain:
    case Remedy::kSendRest:
      co_return true;
    case Remedy::kRegister:
      client_.credentials().Forget(attempt.cred);
      co_return true;
    case Remedy::kReclaim:
      ForgetOpens(call);
      co_return true;
    case Remedy::kNewSession:
      if (Session* session = session_keeper_.session()) {
        session->GiveUp(absl::UnavailableError("the server has forgotten this client"));
      }
      co_return true;
    case Remedy::kRenewRoot: {
      Task<absl::StatusOr<bool>> renewing = RenewRoot(*this, attempt.gate, call);
      absl::StatusOr<bool> renewed = co_await renewing;
      co_return renewed;
    }
    case Remedy::kWait:
      break;
  }
  if (attempt.pause.IsTooLate(attempt.deadline)) {
    co_return absl::DeadlineExceededError(
        absl::StrCat(NamesOf(chain), ": the server asked to wait beyond the deadline"));
  }
  Task<absl::Status> waiting = attempt.pause.Wait(
      absl::StrCat(NamesOf(chain), ": the server asks to wait (",
                   call.status == wire::DafsStatus::kGrace ? "GRACE" : "DELAY", ")"));
  CO_RETURN_IF_ERROR(co_await waiting);
  co_return true;
}

void RequestExecutor::ForgetOpen(const wire::StateId& open, const wire::StateId& state_id) {
  client_.delegations().Lost(open, state_id);
  client_.opens().Forgotten(open, state_id);
}

// The server does not know the opens of `call`: the next attempt reclaims them.
void RequestExecutor::ForgetOpens(CallBase& call) {
  if (call.open.has_value()) ForgetOpen(*call.open, *call.state_id_argument());
  if (call.source_open.has_value()) {
    ForgetOpen(*call.source_open, *call.source_state_id_argument());
  }
}

Task<absl::Status> RequestExecutor::RunAll(const Identity* user, std::span<CallBase* const> chain,
                                           std::string_view what, size_t extra) {
  Task<absl::Status> task = Run(user, chain);
  CO_RETURN_IF_ERROR(co_await task);
  for (const CallBase* call : chain.first(chain.size() - extra)) {
    if (!call->ok()) co_return StatusOf(*call, what);
  }
  co_return absl::OkStatus();
}

}  // namespace dafs::client
