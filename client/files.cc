// How an operation gets to its end: a session, a credential, the exchange, and what may be done
// again. Spec: 3.1.1.2, 3.1.2.5, 4.3.4, 5.2; WIRE 8.2, 9.2.
#include "client/files.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/batch.h"
#include "client/call.h"
#include "client/connection.h"
#include "client/lost_requests.h"
#include "client/operation.h"
#include "client/session.h"
#include "client/text.h"
#include "client/wait_list.h"
#include "client/waits.h"
#include "wire/log.h"
#include "wire/status_macros.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

// Refusals that are worth the same request again, at most so often.
constexpr int kMostRegistrations = 8;  // NO_CREDS
constexpr int kMostDamaged = 8;        // CHKSUM, or an answer that arrived damaged
constexpr int kMostReclaims = 8;       // of what the server says it does not know
constexpr absl::Duration kDelayLeast = absl::Milliseconds(10);
constexpr absl::Duration kDelayMost = absl::Seconds(5);

size_t AnsweredWell(std::span<CallBase* const> chain) {
  size_t count = 0;
  while (count < chain.size() && chain[count]->ok()) ++count;
  return count;
}

// The first member that changes something and may or may not have been carried out; null: all of
// them can be issued again.
const CallBase* FateUnknown(std::span<CallBase* const> chain) {
  for (const CallBase* call : chain) {
    bool perhaps_done = (call->sent && !call->answered) || call->ok();
    if (perhaps_done && !call->idempotent()) return call;
  }
  return nullptr;
}

std::string NamesOf(std::span<CallBase* const> chain) {
  std::string text;
  for (const CallBase* call : chain) {
    absl::StrAppend(&text, text.empty() ? "" : "+", Text(wire::Name(call->proc())));
  }
  return text;
}

// Puts what the first `done` members leave into the next one: it becomes the first of the chain
// that is issued now.
std::span<CallBase* const> Rest(std::span<CallBase* const> chain, size_t done) {
  if (done == 0) return chain;
  Current current;
  for (const CallBase* call : chain.first(done)) call->PassOn(current);
  chain[done]->TakeOver(current);
  return chain.subspan(done);
}

// The chain flags as the caller set them, for a chain that starts anew.
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

absl::Status StatusOf(const CallBase& call, std::string_view what) {
  absl::Status status = wire::StatusFromDafs(call.status, what);
  if (call.status != DafsStatus::kNotSupp) return status;
  absl::Status unimplemented(absl::StatusCode::kUnimplemented, status.message());
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    unimplemented.SetPayload(url, payload);
  });
  return unimplemented;
}

absl::StatusOr<std::unique_ptr<Files>> Files::Create(Client& client, dat::Loop& loop) {
  ASSIGN_OR_RETURN(std::unique_ptr<BufferPool> buffers,
                   BufferPool::Create(client.options().buffers));
  return absl::WrapUnique(new Files(client, loop, std::move(buffers)));
}

Files::Files(Client& client, dat::Loop& loop, std::unique_ptr<BufferPool> buffers)
    : client_(client),
      loop_(loop),
      buffers_(std::move(buffers)),
      connection_(
          std::make_unique<Connection>(client, loop, buffers_.get(), client.options().server_name)),
      lost_(std::make_unique<LostRequests>(client, *connection_)),
      batches_(std::make_unique<Batches>(*this, *connection_, loop)),
      waits_(std::make_unique<Waits>(client.options().server_name)),
      registration_(std::make_unique<WaitList>(loop)),
      reclaim_(std::make_unique<WaitList>(loop)) {
  connection_->OnChange([this](Session& session) { SessionReady(session); },
                        [this](Session& session) {
                          lost_->SessionLost(session.negotiated().session_id);
                          batches_->SessionLost();
                        });
  client_.AddWorker(this);
}

Files::~Files() {
  client_.RemoveWorker(this);
  Shutdown();
}

void Files::Shutdown() {
  loop_.Cancel(std::exchange(commit_timer_, 0));
  connection_->Shutdown();
  batches_->Shutdown();
  registration_->WakeAll(absl::CancelledError("the mount ends"));
  reclaim_->WakeAll(absl::CancelledError("the mount ends"));
  EndLockWaits(absl::CancelledError("the mount ends"));
  buffers_->Close();
}

dat::Task<absl::Status> Files::Connect() { return connection_->ConnectOnce(); }

dat::Task<void> Files::Disconnect() {
  // Data that nobody committed yet, if the server is there.
  if (!client_.uncommitted().Files(absl::InfiniteFuture()).empty()) {
    dat::Start(CommitOld(absl::InfiniteFuture()));
    const absl::Time end = dat::Loop::Now() + absl::Seconds(2);
    while (connection_->session() != nullptr && dat::Loop::Now() < end &&
           !client_.uncommitted().Files(absl::InfiniteFuture()).empty()) {
      dat::Task<absl::Status> pause = connection_->Pause(absl::Milliseconds(5));
      if (!(co_await pause).ok()) break;
    }
  }
  dat::Task<void> task = connection_->Disconnect(absl::Seconds(2));
  co_await task;
  Shutdown();
}

absl::Time Files::DeadlineFromNow() const {
  const ClientOptions& options = client_.options();
  return options.soft ? dat::Loop::Now() + options.timeout : absl::InfiniteFuture();
}

WorkerReport Files::Report() const {
  WorkerReport report;
  connection_->Fill(report);
  report.buffers = buffers_->counts();
  report.fetched = lost_->fetched();
  report.reissued = lost_->reissued();
  if (auto longest = waits_->longest(dat::Loop::Now())) {
    report.waiting = longest->what;
    report.waiting_for = longest->age;
  }
  return report;
}

// ---- The way of every operation --------------------------------------------------------------

// What one operation has been through.
struct Files::Attempt {
  const Identity* who;  // null: the session's own credentials
  Gate gate;
  absl::Time deadline;
  wire::CredHandle cred = {};
  std::optional<Waits::Note> note = std::nullopt;  // while the server asks to wait
  absl::Duration delay = kDelayLeast;              // the next, when the server asks to wait
  int registrations = 0;
  int damaged = 0;
  int reclaims = 0;
  bool begun = false;  // some of the chain was carried out
};

dat::Task<absl::Status> Files::Run(const Identity* who, std::span<CallBase* const> chain) {
  return RunBehind(Gate::kReclaimed, who, chain);
}

dat::Task<absl::Status> Files::RunBehind(Gate gate, const Identity* who,
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
    dat::Task<absl::Status> exchange = session->Run(attempt.cred, chain, attempt.deadline);
    absl::Status status = co_await exchange;  // the session may be gone now
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

namespace {

// What restores lost data may go on while it is being restored, and so may what replaces it: a file
// that is being written or cut is not written again meanwhile. The rest of a chain goes with it.
bool IsOfData(std::span<CallBase* const> chain) {
  switch (chain.front()->proc()) {
    case wire::Proc::kCommit:
    case wire::Proc::kWriteInline:
    case wire::Proc::kWriteDirect:
    case wire::Proc::kSetattrInline:
    case wire::Proc::kSetattrDirect:
    case wire::Proc::kAllocate:
    case wire::Proc::kCopyRange:
      return true;
    default:
      return false;
  }
}

}  // namespace

// The session for `chain`, with everything it needs; null: something must be waited for first.
Session* Files::TryPrepare(Attempt& attempt, std::span<CallBase* const> chain) {
  Session* session = connection_->session();
  if (session == nullptr) return nullptr;
  const Negotiated& negotiated = session->negotiated();
  if (attempt.gate == Gate::kReclaimed && (!(reclaimed_under_ == negotiated.client_id) ||
                                           (restoring_ && !attempt.begun && !IsOfData(chain)))) {
    return nullptr;
  }
  // Spec 3.1.1.1.2: a client that is not trusted acts with the session's own credentials only.
  attempt.cred = wire::CredHandle();
  if (attempt.who != nullptr && negotiated.trusted) {
    auto known = client_.credentials().Find(negotiated.client_id, *attempt.who);
    if (!known.has_value()) return nullptr;
    attempt.cred = *known;
  }
  return NameOpens(chain, negotiated.client_id).has_value() ? nullptr : session;
}

// Waits for what TryPrepare missed first.
dat::Task<absl::Status> Files::Prepare(Attempt& attempt, std::span<CallBase* const> chain) {
  Session* session = connection_->session();
  if (session == nullptr) {
    dat::Task<absl::StatusOr<Session*>> task = connection_->Ready(attempt.deadline);
    absl::StatusOr<Session*> ready = co_await task;
    co_return ready.status();
  }
  const wire::ClientId client_id = session->negotiated().client_id;
  if (attempt.gate == Gate::kReclaimed && !(reclaimed_under_ == client_id)) {
    dat::Task<absl::Status> task = AwaitReclaim(attempt.deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (attempt.gate == Gate::kReclaimed && restoring_ && !attempt.begun && !IsOfData(chain)) {
    absl::Status status = co_await reclaim_->Wait(attempt.deadline);
    if (absl::IsDeadlineExceeded(status)) {
      status = absl::DeadlineExceededError("what the server lost is still being written again");
    }
    co_return status;
  }
  if (attempt.who != nullptr && session->negotiated().trusted &&
      !client_.credentials().Find(client_id, *attempt.who).has_value()) {
    dat::Task<absl::Status> task = Register(*attempt.who, attempt.deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (std::optional<wire::StateId> unknown = NameOpens(chain, client_id)) {
    dat::Task<absl::Status> task = ReclaimOpen(*unknown);
    absl::Status status = co_await task;
    co_return status;
  }
  co_return absl::OkStatus();
}

// Spec 5.2.5: the old session's Response Cache tells what was executed.
dat::Task<absl::StatusOr<LostRequests::Next>> Files::AfterLoss(Attempt& attempt,
                                                               std::span<CallBase* const> chain,
                                                               absl::Status why) {
  const bool was_damaged =
      std::any_of(chain.begin(), chain.end(), [](const CallBase* call) { return call->damaged; });
  if (was_damaged && ++attempt.damaged > kMostDamaged) {
    co_return absl::DataLossError(absl::StrCat(NamesOf(chain), ": ", why.message()));
  }
  if (Session* session = connection_->session();
      session != nullptr && was_damaged &&
      session->negotiated().session_id == chain.front()->xid.session_id) {
    // Only the answer is lost, the session lives. A cache can be asked about a session that is
    // over, so this one is given up unless everything can simply be issued again.
    const CallBase* unknown = FateUnknown(chain.subspan(AnsweredWell(chain)));
    const bool goes_on = std::any_of(chain.begin(), chain.end(),
                                     [](const CallBase* call) { return call->outlives_answer(); });
    if (unknown == nullptr && !goes_on) co_return LostRequests::Next::kRest;
    if (goes_on || unknown->xid.cached) {
      session->GiveUp(absl::UnavailableError("an answer to a change arrived damaged"));
    }
  }
  dat::Task<absl::StatusOr<LostRequests::Next>> task =
      lost_->Resolve(chain, std::move(why), attempt.deadline);
  absl::StatusOr<LostRequests::Next> next = co_await task;
  co_return next;
}

// chain[done] was refused. True: issue it again.
dat::Task<absl::StatusOr<bool>> Files::AfterRefusal(Attempt& attempt,
                                                    std::span<CallBase* const> chain, size_t done) {
  CallBase& call = *chain[done];
  switch (call.status) {
    case DafsStatus::kDelay:
    case DafsStatus::kGrace:
      break;
    case DafsStatus::kNoCreds:  // not executed; the server forgot who this is
      if (attempt.who == nullptr || ++attempt.registrations > kMostRegistrations) co_return false;
      client_.credentials().Forget(attempt.cred);
      co_return true;
    case DafsStatus::kChksum:  // not executed
      co_return ++attempt.damaged <= kMostDamaged;
    case DafsStatus::kStaleStateId:  // not executed; the server forgot the open, or the client
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
      if (Session* session = connection_->session()) {
        session->GiveUp(absl::UnavailableError("the server has forgotten this client"));
      }
      co_return true;
    default:
      co_return false;
  }
  if (dat::Loop::Now() + attempt.delay > attempt.deadline) {
    co_return absl::DeadlineExceededError(
        absl::StrCat(NamesOf(chain), ": the server asks to wait, for too long"));
  }
  if (!attempt.note.has_value()) {
    attempt.note.emplace(*waits_,
                         absl::StrCat(NamesOf(chain), ": the server asks to wait (",
                                      call.status == DafsStatus::kGrace ? "GRACE" : "DELAY", ")"));
  }
  waits_->Look(dat::Loop::Now());
  dat::Task<absl::Status> pause = connection_->Pause(attempt.delay);
  CO_RETURN_IF_ERROR(co_await pause);
  attempt.delay = std::min(attempt.delay * 2, kDelayMost);
  co_return true;
}

dat::Task<absl::Status> Files::RunAll(const Identity* who, std::span<CallBase* const> chain,
                                      std::string_view what, size_t extra) {
  dat::Task<absl::Status> task = Run(who, chain);
  CO_RETURN_IF_ERROR(co_await task);
  for (const CallBase* call : chain.first(chain.size() - extra)) {
    if (!call->ok()) co_return StatusOf(*call, what);
  }
  co_return absl::OkStatus();
}

// ---- Credentials -----------------------------------------------------------------------------

// One after the other in a worker, so that many requests of a new user register it once.
dat::Task<absl::Status> Files::Register(const Identity& who, absl::Time deadline) {
  if (registering_) {
    // Whoever registers now may do it for the same identity: the caller looks again.
    absl::Status turn = co_await registration_->Wait(deadline);
    co_return turn;
  }
  registering_ = true;
  dat::Task<absl::Status> task = RegisterNow(who, deadline);
  absl::Status status = co_await task;
  registering_ = false;
  registration_->WakeAll(absl::OkStatus());
  co_return status;
}

dat::Task<absl::Status> Files::RegisterNow(const Identity& who, absl::Time deadline) {
  Call<wire::RegisterCredArgs> call;
  call.args.cred_type = wire::CredType::kId;
  call.args.uid = static_cast<int32_t>(who.uid);
  call.args.gid = static_cast<int32_t>(who.gid);
  for (uint32_t group : who.groups) call.args.groups.push_back(static_cast<int32_t>(group));
  CallBase* const chain[] = {&call};
  absl::Duration delay = kDelayLeast;
  for (int tries = 0;; ++tries) {
    Session* session = connection_->session();
    if (session == nullptr) co_return absl::OkStatus();
    const wire::ClientId client_id = session->negotiated().client_id;
    const uint32_t most = std::max(session->negotiated().max_credentials, 1u);
    dat::Task<absl::Status> exchange = session->Run(wire::CredHandle(), chain, deadline);
    absl::Status status = co_await exchange;
    if (absl::IsUnavailable(status) && tries < kMostRegistrations) {
      if (connection_->session() == nullptr) co_return absl::OkStatus();
      continue;  // only the answer was damaged
    }
    CO_RETURN_IF_ERROR(status);
    if (call.ok()) {
      std::vector<wire::CredHandle> useless =
          client_.credentials().Insert(client_id, who, call.res.cred_handle, most);
      for (const wire::CredHandle& handle : useless) {
        dat::Task<void> release = Release(handle, deadline);
        co_await release;
      }
      co_return absl::OkStatus();
    }
    if (call.status == DafsStatus::kResource && tries < kMostRegistrations) {
      // Another session of this client, perhaps of its past, holds the places.
      if (auto oldest = client_.credentials().TakeOldest()) {
        dat::Task<void> release = Release(*oldest, deadline);
        co_await release;
        continue;
      }
    }
    if (call.status == DafsStatus::kNotSupp || call.status == DafsStatus::kNotAuthorized) {
      // 6.2.8: it takes no credentials of this kind, or not for this user. He acts with the
      // session's own, as all do whose client is not trusted (3.1.1.1.2).
      LogWarning(absl::StrCat("the server takes no credentials of user ", who.uid, " (",
                              Text(wire::Name(call.status)),
                              "): it decides as whom his calls are made"));
      client_.credentials().Insert(client_id, who, wire::CredHandle(), most);
      co_return absl::OkStatus();
    }
    if (call.status != DafsStatus::kDelay && call.status != DafsStatus::kGrace) {
      co_return StatusOf(call, absl::StrCat("register credentials of user ", who.uid));
    }
    dat::Task<absl::Status> pause = connection_->Pause(delay);
    CO_RETURN_IF_ERROR(co_await pause);
    delay = std::min(delay * 2, kDelayMost);
    if (dat::Loop::Now() > deadline) {
      co_return absl::DeadlineExceededError("register credentials: the server asks to wait");
    }
  }
}

// What comes of it does not matter: the server drops handles with the client.
dat::Task<void> Files::Release(const wire::CredHandle& handle, absl::Time deadline) {
  Session* session = connection_->session();
  if (session == nullptr || handle.is_zero()) co_return;
  Call<wire::ReleaseCredArgs> call;
  call.args.cred_handle = handle;
  CallBase* const chain[] = {&call};
  dat::Task<absl::Status> task = session->Run(wire::CredHandle(), chain, deadline);
  absl::Status ignored = co_await task;
}

dat::Task<absl::Status> Files::Null() {
  Call<wire::NullArgs> call;
  CallBase* const chain[] = {&call};
  dat::Task<absl::Status> task = RunAll(nullptr, chain, "null");
  absl::Status status = co_await task;
  co_return status;
}

}  // namespace dafs::client
