#include "client/recovery/runner.h"

#include <algorithm>
#include <bitset>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recovery/operation.h"
#include "client/recovery/reclaim.h"
#include "client/recovery/server_delay.h"
#include "client/session/call.h"
#include "client/session/connection.h"
#include "client/session/report.h"
#include "client/session/session.h"
#include "runtime/log.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

// Refusals after which the request is retried, and how often.
constexpr int kMostRegistrations = 8;  // NO_CREDS
constexpr int kMostDamaged = 8;        // CHKSUM, or a damaged response
constexpr int kMostReclaims = 8;       // state that the server does not know
constexpr int kMostRenewals = 4;       // FHEXPIRED, STALE or BADHANDLE of the root

size_t AnsweredWell(std::span<CallBase* const> chain) {
  size_t count = 0;
  while (count < chain.size() && chain[count]->ok()) ++count;
  return count;
}

// The first member that is not idempotent and may have been executed; null if all members can be
// issued again.
const CallBase* FateUnknown(std::span<CallBase* const> chain) {
  for (const CallBase* call : chain) {
    bool perhaps_done = (call->sent && !call->answered) || call->ok();
    if (perhaps_done && !call->idempotent()) return call;
  }
  return nullptr;
}

// Puts the filehandle and state id that the first `done` members leave into the next member, which
// becomes the first of the rest. Returns the rest.
std::span<CallBase* const> Rest(std::span<CallBase* const> chain, size_t done) {
  if (done == 0) return chain;
  Current current;
  for (const CallBase* call : chain.first(done)) call->PassOn(current);
  chain[done]->TakeOver(current);
  return chain.subspan(done);
}

// Whether `chain` may run while lost data is restored. COMMIT and writes restore it. Requests that
// write or truncate may run too: a file is not written again while one of them runs. Only the first
// member decides. A copy waits, since its source may be lost data.
bool IsOfData(std::span<CallBase* const> chain) {
  switch (chain.front()->proc()) {
    case wire::Proc::kCommit:
    case wire::Proc::kWriteInline:
    case wire::Proc::kWriteDirect:
    case wire::Proc::kSetattrInline:
    case wire::Proc::kSetattrDirect:
    case wire::Proc::kAllocate:
      return true;
    default:
      return false;
  }
}

// Puts the server's present state ids into the arguments. Returns the first open of `chain` that
// the server does not know under `client_id`; nullopt if it knows all.
std::optional<wire::StateId> NameOpens(std::span<CallBase* const> chain, const Opens& opens,
                                       const wire::ClientId& client_id) {
  for (CallBase* call : chain) {
    std::optional<wire::StateId> unknown = NameOpen(*call, opens, client_id);
    if (unknown.has_value()) return unknown;
  }
  return std::nullopt;
}

// The same for the root's filehandle.
void NameRoot(std::span<CallBase* const> chain, const RootHandle& root) {
  for (CallBase* call : chain) {
    call->VisitHandles([&](wire::FileHandle& handle) {
      if (auto present = root.Present(handle)) handle = *present;
    });
  }
}

// The chain flags as the caller set them, to issue the whole chain again.
class OriginalFlags {
 public:
  explicit OriginalFlags(std::span<CallBase* const> chain) {
    for (size_t i = 0; i < chain.size() && i < kMaxChain; ++i) {
      fh_[i] = chain[i]->chf_fh;
      state_id_[i] = chain[i]->chf_state_id;
    }
  }
  void Restore(std::span<CallBase* const> chain) const {
    for (size_t i = 0; i < chain.size() && i < kMaxChain; ++i) {
      chain[i]->chf_fh = fh_[i];
      chain[i]->chf_state_id = state_id_[i];
    }
  }

 private:
  std::bitset<kMaxChain> fh_, state_id_;
};

}  // namespace

Runner::Runner(Client& client, dat::Loop& loop, Connection& connection)
    : client_(client),
      loop_(loop),
      connection_(connection),
      waits_(client.options().server_name),
      lost_(client, connection, waits_),
      registration_(client, loop, connection) {}

absl::Time Runner::DeadlineFromNow() const {
  const ClientOptions& options = client_.options();
  return options.soft ? dat::Loop::Now() + options.timeout : absl::InfiniteFuture();
}

void Runner::Fill(WorkerReport& report) const {
  report.fetched = lost_.fetched();
  report.reissued = lost_.reissued();
  if (auto longest = waits_.longest(dat::Loop::Now())) {
    report.waiting = longest->what;
    report.waiting_for = longest->age;
  }
}

// The state of one operation across its retries.
struct Runner::Attempt {
  const Identity* who;  // null: the session's own credentials
  Gate gate;
  absl::Time deadline;
  wire::CredHandle cred = {};
  std::optional<Waits::Note> note = std::nullopt;  // while the server asks to wait
  ServerDelay delay = {};
  int registrations = 0;
  int damaged = 0;
  int reclaims = 0;
  int renewals = 0;
  bool begun = false;  // some members of the chain were executed
};

dat::Task<absl::Status> Runner::Run(const Identity* who, std::span<CallBase* const> chain) {
  return RunBehind(Gate::kReclaimed, who, chain);
}

dat::Task<absl::Status> Runner::RunBehind(Gate gate, const Identity* who,
                                          std::span<CallBase* const> whole) {
  Attempt attempt{who, gate, DeadlineFromNow()};
  const OriginalFlags flags(whole);
  std::span<CallBase* const> chain = whole;
  for (;;) {
    Session* session = TryPrepare(attempt, chain);
    if (session == nullptr) {
      dat::Task<absl::Status> waiting = Prepare(attempt, chain);
      CO_RETURN_IF_ERROR(co_await waiting);
      continue;
    }
    if (gathers_) {
      for (CallBase* call : chain) call->leaves_with_turn = true;
    }
    dat::Task<absl::Status> exchange = session->Run(attempt.cred, chain, attempt.deadline);
    absl::Status status = co_await exchange;  // the session may be destroyed now
    if (AnsweredWell(chain) == chain.size()) co_return absl::OkStatus();
    if (absl::IsUnavailable(status)) {
      dat::Task<absl::StatusOr<LostRequests::Next>> finding =
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
    const size_t done = AnsweredWell(chain);
    if (done == chain.size()) co_return absl::OkStatus();
    attempt.begun |= done > 0;
    if (chain[done]->answered) {
      dat::Task<absl::StatusOr<bool>> deciding = AfterRefusal(attempt, chain, done);
      absl::StatusOr<bool> again = co_await deciding;
      if (!again.ok()) co_return again.status();
      if (!*again) co_return absl::OkStatus();
    }
    chain = Rest(chain, done);
  }
}

bool Runner::AwaitsData(const Attempt& attempt, std::span<CallBase* const> chain) const {
  return reclaim_->restoring() && !attempt.begun && !IsOfData(chain);
}

// Returns the session and prepares `chain` for it. Returns null if the operation must wait first.
Session* Runner::TryPrepare(Attempt& attempt, std::span<CallBase* const> chain) {
  Session* session = connection_.session();
  if (session == nullptr) return nullptr;
  const Negotiated& negotiated = session->negotiated();
  if (attempt.gate == Gate::kReclaimed &&
      (!reclaim_->IsDone(negotiated.client_id) || AwaitsData(attempt, chain))) {
    return nullptr;
  }
  // Spec 3.1.1.1.2: an untrusted client uses only the session's own credentials.
  attempt.cred = wire::CredHandle();
  if (attempt.who != nullptr && negotiated.trusted) {
    auto known = client_.credentials().Find(negotiated.client_id, *attempt.who);
    if (!known.has_value()) return nullptr;
    attempt.cred = *known;
  }
  if (client_.root().renewed()) NameRoot(chain, client_.root());
  return NameOpens(chain, client_.opens(), negotiated.client_id).has_value() ? nullptr : session;
}

// Waits for the first condition that TryPrepare found missing.
dat::Task<absl::Status> Runner::Prepare(Attempt& attempt, std::span<CallBase* const> chain) {
  Session* session = connection_.session();
  if (session == nullptr) {
    dat::Task<absl::StatusOr<Session*>> task = connection_.Ready(attempt.deadline);
    absl::StatusOr<Session*> ready = co_await task;
    co_return ready.status();
  }
  const wire::ClientId client_id = session->negotiated().client_id;
  if (attempt.gate == Gate::kReclaimed && !reclaim_->IsDone(client_id)) {
    dat::Task<absl::Status> task = reclaim_->Await(attempt.deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (attempt.gate == Gate::kReclaimed && AwaitsData(attempt, chain)) {
    dat::Task<absl::Status> task = reclaim_->AwaitRestored(attempt.deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (attempt.who != nullptr && session->negotiated().trusted &&
      !client_.credentials().Find(client_id, *attempt.who).has_value()) {
    dat::Task<absl::Status> task = registration_.Register(*attempt.who, attempt.deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (std::optional<wire::StateId> unknown = NameOpens(chain, client_.opens(), client_id)) {
    dat::Task<absl::Status> task = reclaim_->ReclaimOpen(*unknown);
    absl::Status status = co_await task;
    co_return status;
  }
  co_return absl::OkStatus();
}

// Spec 5.2.5: the old session's Response Cache shows which members were executed.
dat::Task<absl::StatusOr<LostRequests::Next>> Runner::AfterLoss(Attempt& attempt,
                                                                std::span<CallBase* const> chain,
                                                                absl::Status why) {
  const bool was_damaged =
      std::any_of(chain.begin(), chain.end(), [](const CallBase* call) { return call->damaged; });
  if (was_damaged && ++attempt.damaged > kMostDamaged) {
    co_return absl::DataLossError(absl::StrCat(NamesOf(chain), ": ", why.message()));
  }
  if (Session* session = connection_.session();
      session != nullptr && was_damaged &&
      session->negotiated().session_id == chain.front()->xid.session_id) {
    // Only the response is lost; the session is alive. A Response Cache is available only after its
    // session ended. So the session is given up, unless every member can be issued again.
    const CallBase* unknown = FateUnknown(chain.subspan(AnsweredWell(chain)));
    const bool goes_on = std::any_of(chain.begin(), chain.end(),
                                     [](const CallBase* call) { return call->outlives_answer(); });
    if (unknown == nullptr && !goes_on) co_return LostRequests::Next::kRest;
    if (goes_on || unknown->xid.cached) {
      session->GiveUp(absl::UnavailableError("an answer to a change arrived damaged"));
    }
  }
  dat::Task<absl::StatusOr<LostRequests::Next>> task =
      lost_.Resolve(chain, std::move(why), attempt.deadline);
  absl::StatusOr<LostRequests::Next> next = co_await task;
  co_return next;
}

// chain[done] was refused. Returns true if it is to be issued again.
dat::Task<absl::StatusOr<bool>> Runner::AfterRefusal(Attempt& attempt,
                                                     std::span<CallBase* const> chain,
                                                     size_t done) {
  CallBase& call = *chain[done];
  switch (call.status) {
    case DafsStatus::kDelay:
    case DafsStatus::kGrace:
      break;
    case DafsStatus::kNoCreds:  // not executed; the server does not know the credential
      if (attempt.who == nullptr || ++attempt.registrations > kMostRegistrations) co_return false;
      client_.credentials().Forget(attempt.cred);
      co_return true;
    case DafsStatus::kChksum:  // not executed
      co_return ++attempt.damaged <= kMostDamaged;
    // not executed; the server does not know the open or the client
    case DafsStatus::kStaleStateId:
    case DafsStatus::kOldStateId:
    case DafsStatus::kBadStateId:
    case DafsStatus::kExpired:
      if ((!call.open.has_value() && !call.source_open.has_value()) ||
          call.proc() == wire::Proc::kClose || ++attempt.reclaims > kMostReclaims) {
        co_return false;
      }
      if (call.open.has_value()) {
        client_.opens().Forgotten(*call.open, *call.state_id_argument());
      }
      if (call.source_open.has_value()) {
        client_.opens().Forgotten(*call.source_open, *call.source_state_id_argument());
      }
      co_return true;
    case DafsStatus::kStaleClientId:  // 4.4.1.1: a new client_id comes with a new session
      if (++attempt.reclaims > kMostReclaims) co_return false;
      if (Session* session = connection_.session()) {
        session->GiveUp(absl::UnavailableError("the server has forgotten this client"));
      }
      co_return true;
    case DafsStatus::kFhExpired:  // not executed
    case DafsStatus::kStale:
    case DafsStatus::kBadHandle: {
      dat::Task<absl::StatusOr<bool>> renewing = RenewRoot(attempt, call);
      absl::StatusOr<bool> renewed = co_await renewing;
      co_return renewed;
    }
    case DafsStatus::kResource:  // not executed; a shorter chain may succeed
      co_return done > 0;
    default:
      co_return false;
  }
  if (dat::Loop::Now() + attempt.delay.next() > attempt.deadline) {
    co_return absl::DeadlineExceededError(
        absl::StrCat(NamesOf(chain), ": the server asked to wait beyond the deadline"));
  }
  if (!attempt.note.has_value()) {
    attempt.note.emplace(waits_,
                         absl::StrCat(NamesOf(chain), ": the server asks to wait (",
                                      call.status == DafsStatus::kGrace ? "GRACE" : "DELAY", ")"));
  }
  waits_.Look(dat::Loop::Now());
  dat::Task<absl::Status> pause = connection_.Pause(attempt.delay.next());
  CO_RETURN_IF_ERROR(co_await pause);
  attempt.delay.Grow();
  co_return true;
}

// Spec 4.1.4: an expired handle is looked up again by its path. So is a STALE or BADHANDLE one: the
// path may lead to another directory now. Only the root's handle is renewed here. Returns false if
// `call` does not use it, or if the lookup fails.
dat::Task<absl::StatusOr<bool>> Runner::RenewRoot(Attempt& attempt, CallBase& call) {
  RootHandle& root = client_.root();
  std::optional<wire::FileHandle> expired;
  call.VisitHandles([&](wire::FileHandle& handle) {
    if (root.Present(handle).has_value()) expired = handle;
  });
  if (!expired.has_value() || ++attempt.renewals > kMostRenewals) co_return false;
  if (root.Present(*expired) != *expired) co_return true;  // another worker has renewed it
  Call<wire::GetRootHandleArgs> get;
  Call<wire::LookupArgs> lookup;
  lookup.chf_fh = true;
  lookup.args.path = client_.options().export_path;
  CallBase* const walk[] = {&get, &lookup};
  const bool deep = !lookup.args.path.empty();
  const Identity self{};  // the identity that looked it up first
  dat::Task<absl::Status> walking =
      RunBehind(attempt.gate, &self, std::span(walk).first(deep ? 2 : 1));
  CO_RETURN_IF_ERROR(co_await walking);
  const std::string what =
      absl::StrCat(connection_.name(), ": the filehandle of the mount's root is no longer valid (",
                   Text(wire::Name(call.status)), ")");
  const bool is_found = deep ? lookup.ok() : get.ok();
  if (!is_found) {
    if (root.ReportLost()) {
      const CallBase& last = deep && get.ok() ? static_cast<const CallBase&>(lookup) : get;
      LogError(absl::StrCat(
          what, ", and looking it up fails: ", StatusOf(last, "look up the root").message(),
          "; the mount returns ESTALE until it succeeds"));
    }
    co_return false;
  }
  if (root.Renew(*expired, deep ? lookup.res.filehandle : get.res.root_handle)) {
    LogWarning(absl::StrCat(what,
                            "; it was found again by its path. Files opened before are lost "
                            "unless the server still knows them"));
  }
  co_return root.Present(*expired) != *expired;
}

dat::Task<absl::Status> Runner::RunAll(const Identity* who, std::span<CallBase* const> chain,
                                       std::string_view what, size_t extra) {
  dat::Task<absl::Status> task = Run(who, chain);
  CO_RETURN_IF_ERROR(co_await task);
  for (const CallBase* call : chain.first(chain.size() - extra)) {
    if (!call->ok()) co_return StatusOf(*call, what);
  }
  co_return absl::OkStatus();
}

}  // namespace dafs::client
