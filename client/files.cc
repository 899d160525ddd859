// How an operation gets to its end: a session, a credential, the exchange, and what may be done
// again. Spec: 3.1.1.2, 3.1.2.5, 4.3.4, 5.2; WIRE 8.2, 9.2.
#include "client/files.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/call.h"
#include "client/connection.h"
#include "client/operation.h"
#include "client/session.h"
#include "client/text.h"
#include "client/wait_list.h"
#include "wire/log.h"
#include "wire/status_macros.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

// Refusals that are worth the same request again, at most so often.
constexpr int kMostRegistrations = 8;  // NO_CREDS
constexpr int kMostDamaged = 8;        // CHKSUM, or an answer that arrived damaged
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
      registration_(std::make_unique<WaitList>(loop)) {
  client_.AddWorker(this);
}

Files::~Files() {
  client_.RemoveWorker(this);
  Shutdown();
}

void Files::Shutdown() {
  connection_->Shutdown();
  registration_->WakeAll(absl::CancelledError("the mount ends"));
  buffers_->Close();
}

dat::Task<absl::Status> Files::Connect() { return connection_->ConnectOnce(); }

dat::Task<void> Files::Disconnect() {
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
  return report;
}

// ---- The way of every operation --------------------------------------------------------------

dat::Task<absl::Status> Files::Run(const Identity* who, std::span<CallBase* const> chain) {
  const absl::Time deadline = DeadlineFromNow();
  absl::Duration delay = kDelayLeast;
  int registrations = 0;
  int damaged = 0;
  for (;;) {
    Session* session = connection_->session();
    if (session == nullptr) {
      dat::Task<absl::StatusOr<Session*>> task = connection_->Ready(deadline);
      absl::StatusOr<Session*> ready = co_await task;
      if (!ready.ok()) co_return ready.status();
      session = *ready;
    }
    wire::CredHandle cred;
    // Spec 3.1.1.1.2: a client that is not trusted acts with the session's own credentials only.
    if (who != nullptr && session->negotiated().trusted) {
      auto known = client_.credentials().Find(session->negotiated().client_id, *who);
      if (!known.has_value()) {
        dat::Task<absl::Status> task = Register(*who, deadline);
        CO_RETURN_IF_ERROR(co_await task);
        continue;
      }
      cred = *known;
    }
    dat::Task<absl::Status> exchange = session->Run(cred, chain, deadline);
    absl::Status status = co_await exchange;  // the session may be gone now
    const size_t done = AnsweredWell(chain);
    if (done == chain.size()) co_return absl::OkStatus();

    absl::Duration pause = absl::ZeroDuration();
    if (status.ok()) {
      switch (chain[done]->status) {
        case DafsStatus::kDelay:
        case DafsStatus::kGrace:
          pause = delay;
          delay = std::min(delay * 2, kDelayMost);
          break;
        case DafsStatus::kNoCreds:  // not executed; the server forgot who this is
          if (++registrations > kMostRegistrations) co_return status;
          client_.credentials().Forget(cred);
          break;
        case DafsStatus::kChksum:  // not executed
          if (++damaged > kMostDamaged) co_return status;
          break;
        default:
          co_return status;
      }
    } else if (absl::IsUnavailable(status)) {
      // Spec gap: 5.2 asks the old session's Response Cache what was executed. Until recovery
      // does, what may have been executed and cannot be repeated fails, and says so.
      if (const CallBase* call = FateUnknown(chain.subspan(done))) {
        LogError(absl::StrCat(connection_->name(), ": ", Text(wire::Name(call->proc())),
                              ": not known whether it was carried out: ", status.message()));
        co_return absl::UnknownError(
            absl::StrCat(Text(wire::Name(call->proc())),
                         ": not known whether it was carried out: ", status.message()));
      }
      bool was_damaged = std::any_of(chain.begin(), chain.end(),
                                     [](const CallBase* call) { return call->damaged; });
      if (was_damaged && ++damaged > kMostDamaged) {
        co_return absl::DataLossError(absl::StrCat(NamesOf(chain), ": ", status.message()));
      }
    } else {
      co_return status;
    }
    chain = Rest(chain, done);
    if (pause > absl::ZeroDuration()) {
      if (dat::Loop::Now() + pause > deadline) {
        co_return absl::DeadlineExceededError(
            absl::StrCat(NamesOf(chain), ": the server asks to wait, for too long"));
      }
      dat::Task<absl::Status> task = connection_->Pause(pause);
      CO_RETURN_IF_ERROR(co_await task);
    }
  }
}

dat::Task<absl::Status> Files::RunAll(const Identity* who, std::span<CallBase* const> chain,
                                      std::string_view what) {
  dat::Task<absl::Status> task = Run(who, chain);
  CO_RETURN_IF_ERROR(co_await task);
  for (const CallBase* call : chain) {
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
  if (session == nullptr) co_return;
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
