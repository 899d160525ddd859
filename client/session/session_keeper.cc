#include "client/session/session_keeper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/check.h"
#include "runtime/log/log.h"
#include "wire/auth/credentials.h"
#include "wire/dat/refusal.h"

namespace dafs::client {
namespace {

// The longest pause before the replacement of a session that was lost right after it began.
constexpr absl::Duration kMostAfterQuickLoss = absl::Seconds(1);
// The longest pause between attempts while there are several paths, or alternates.
constexpr absl::Duration kMostWithSeveralPaths = absl::Milliseconds(500);
// The least time between attempts of a user without a ticket.
constexpr absl::Duration kAskAgainAfter = absl::Seconds(5);

absl::Status Cancelled() { return absl::CancelledError("the mount ends"); }

// Whether a later error is more informative than `before`. ConnectOnce reports the first error that
// a server gave, otherwise the last network error: that TCP was refused says more than that the
// machine has no RDMA device.
bool MoreTelling(const absl::Status& before) { return before.ok() || absl::IsUnavailable(before); }

}  // namespace

SessionKeeper::SessionKeeper(Client& client, Loop& loop, BufferPool* pool, std::string name,
                             bool callbacks)
    : client_(client),
      loop_(loop),
      pool_(pool),
      callbacks_(callbacks),
      history_(std::move(name)),
      path_watch_(client, loop, [this](Paths::Use next) { ChangeTo(std::move(next)); }),
      after_quick_loss_(client.options().backoff_least,
                        std::min(client.options().backoff_most, kMostAfterQuickLoss)),
      ready_(loop),
      pauses_(loop) {}

SessionKeeper::~SessionKeeper() {
  Shutdown();
  DAFS_CHECK(!building_, "Shutdown left a connection in the making");
}

Task<absl::Status> SessionKeeper::Pause(absl::Duration delay) {
  if (shut_down_) co_return Cancelled();
  absl::Status status = co_await pauses_.Wait(Loop::Now() + delay);
  if (absl::IsDeadlineExceeded(status)) status = absl::OkStatus();
  co_return status;
}

Task<absl::StatusOr<Session*>> SessionKeeper::Ready(absl::Time deadline) {
  for (;;) {
    if (shut_down_) co_return Cancelled();
    if (Session* session = this->session()) co_return session;
    if (!building_ && Loop::Now() < ask_again_at_) co_return refused_;
    // If the session is still dying, Lost starts the rebuild.
    if (!building_ && (session_ == nullptr || session_->dead())) StartRebuild();
    absl::Status status = co_await ready_.Wait(deadline);
    if (absl::IsDeadlineExceeded(status)) co_return history_.NoSession();
  }
}

// ---- Building --------------------------------------------------------------------------------

Task<absl::Status> SessionKeeper::Try(size_t path) {
  dat::Provider& provider = client_.paths().provider(path);
  const dat::Address address = client_.paths().address(path);
  auto made = Session::Create(client_, loop_, provider, address, pool_, totals_, callbacks_);
  if (!made.ok()) {
    co_return absl::Status(
        made.status().code(),
        absl::StrCat(address.ToString(), " over ", provider.name(), ": ", made.status().message()));
  }
  session_ = *std::move(made);
  Task<absl::Status> task = session_->Establish(Loop::Now() + client_.options().connect_timeout);
  absl::Status status = co_await task;
  if (status.ok()) status = Accept(path);
  if (status.ok()) {
    session_->OnLost([this] { Lost(); });
    history_.Began();
    refused_ = absl::OkStatus();
    ask_again_at_ = absl::InfinitePast();
    // Asynchronous batches have requests that no slot shows, so nothing ends their session early.
    path_watch_.Begin(path, pool_ != nullptr && !client_.options().back_control_channel);
    if (on_ready_) on_ready_(*session_);
    co_return status;
  }
  // This may run within the session's own Poll: destroy the session from outside.
  if (!shut_down_) {
    Task<absl::Status> turn = Pause(absl::ZeroDuration());
    absl::Status ignored = co_await turn;
  }
  if (!shut_down_) session_.reset();
  co_return status;
}

// Takes the session that is established, unless it is with another server than those before: before
// any request is sent by it.
absl::Status SessionKeeper::Accept(size_t path) {
  const Negotiated& negotiated = session_->negotiated();
  absl::Status accepted = client_.paths().Reached(path, negotiated.identity);
  if (!accepted.ok()) {
    session_->Kill(accepted);
    return accepted;
  }
  client_.limits().extensions.store(negotiated.extensions, std::memory_order_relaxed);
  client_.failover().Reached(negotiated.identity.has_value() ? negotiated.identity->instance : 0);
  return accepted;
}

// The same server is tried first (5.3). If its machine refuses, it does not serve there. If nothing
// comes from it, a network that is interrupted is likelier for a while.
bool SessionKeeper::MayFailOver(bool all_refused) const {
  return all_refused || Loop::Now() - history_.lost_at() >= client_.options().failover_after;
}

Task<absl::Status> SessionKeeper::TryAll() {
  Paths& paths = client_.paths();
  absl::Status telling;
  std::string passed_over = client_.options().left_out;
  std::vector<bool> tried(paths.size());
  bool all_refused = true;
  for (;;) {
    use_.reset();
    use_ = next_.has_value() ? std::exchange(next_, std::nullopt)
                             : paths.Choose(tried, pool_ != nullptr);
    if (!use_.has_value() && MayFailOver(all_refused)) {
      use_ = paths.Choose(tried, pool_ != nullptr, /*alternates=*/true);
    }
    if (!use_.has_value()) break;
    const size_t path = use_->path();
    if (path >= tried.size()) tried.resize(path + 1);  // its address was added meanwhile
    tried[path] = true;
    Task<absl::Status> task = Try(path);
    absl::Status status = co_await task;
    if (shut_down_) co_return Cancelled();
    if (status.ok()) {
      history_.Succeeded(std::move(passed_over));
      co_return status;
    }
    paths.Failed(path, Loop::Now());
    all_refused = all_refused && dat::IsRefused(status);
    absl::StrAppend(&passed_over, passed_over.empty() ? "" : "; ", status.message());
    if (MoreTelling(telling)) telling = std::move(status);
  }
  history_.Failed(telling);
  co_return telling;
}

Task<absl::Status> SessionKeeper::ConnectOnce() {
  if (shut_down_) co_return Cancelled();
  if (session() != nullptr) co_return absl::OkStatus();
  if (building_) {
    Task<absl::StatusOr<Session*>> ready = Ready(Loop::Now() + client_.options().connect_timeout);
    absl::StatusOr<Session*> session = co_await ready;
    co_return session.status();
  }
  building_ = true;
  session_.reset();
  Task<absl::Status> task = TryAll();
  absl::Status status = co_await task;
  building_ = false;
  ready_.WakeAll(absl::OkStatus());  // waiters check again
  co_return status;
}

void SessionKeeper::StartRebuild() {
  building_ = true;
  Start(Rebuild());
}

Task<void> SessionKeeper::Rebuild() {
  // The old session's code may be on the stack: wait for another turn of the loop.
  Task<absl::Status> turn = Pause(PauseAfterLoss());
  absl::Status status = co_await turn;
  const absl::Duration most = client_.options().backoff_most;
  // One of several paths may work soon.
  Backoff backoff(client_.options().backoff_least,
                  client_.paths().several() ? std::min(most, kMostWithSeveralPaths) : most);
  for (int attempts = 1; !shut_down_; ++attempts) {
    session_.reset();
    Task<absl::Status> trying = TryAll();
    status = co_await trying;
    if (shut_down_) break;
    if (status.ok()) {
      history_.LogReplaced(*session_, attempts);
      break;
    }
    if (NoteRefusal(status)) break;
    history_.LogRetry(status);
    Task<absl::Status> waiting = Pause(backoff.Next());
    status = co_await waiting;
  }
  building_ = false;
  if (!shut_down_) ready_.WakeAll(absl::OkStatus());
}

// Whether requests fail now: with fails_without_credentials, after an attempt by which this side
// has not proven its identity. The first request after a while tries again.
bool SessionKeeper::NoteRefusal(const absl::Status& status) {
  if (!client_.options().fails_without_credentials ||
      !(absl::IsFailedPrecondition(status) || absl::IsUnauthenticated(status) ||
        absl::IsPermissionDenied(status))) {
    return false;
  }
  if (refused_.ok()) {
    LogWarning(absl::StrCat(history_.name(), ": ", status.message(), "; requests fail until then"));
  }
  refused_ = absl::UnauthenticatedError(status.message());
  if (auth::HaveExpired(status)) refused_.SetPayload(auth::kExpiredCredentials, absl::Cord());
  ask_again_at_ = Loop::Now() + kAskAgainAfter;
  return true;
}

// Called by the session's Die, after all outstanding requests were resumed.
void SessionKeeper::Lost() {
  const bool is_planned = next_.has_value();
  history_.Lost(*session_, is_planned, !shut_down_);
  if (use_.has_value() && !is_planned) client_.paths().Failed(use_->path(), Loop::Now());
  use_.reset();
  path_watch_.End();
  if (on_lost_) on_lost_(*session_);
  if (!shut_down_ && !building_) StartRebuild();
}

// Outstanding requests are settled as after any loss, so no program sees the change.
void SessionKeeper::ChangeTo(Paths::Use next) {
  Session* const session = this->session();
  if (session == nullptr) return;
  const std::string why = absl::StrCat(
      "given up for ", client_.paths().address(next.path()).ToString(), ", which works again");
  next_ = std::move(next);
  session->GiveUp(absl::UnavailableError(why));
}

// A lost session is replaced at once, unless it had just begun: the next one may be lost as
// quickly. The pause is at most kMostAfterQuickLoss, since the server can be reached and each
// session may complete some requests. Ready may start the rebuild before Lost runs, so lost_at may
// still be old here.
absl::Duration SessionKeeper::PauseAfterLoss() {
  if (Loop::Now() - history_.began_at() < client_.options().backoff_least) {
    return after_quick_loss_.Next();
  }
  after_quick_loss_.Reset();
  return absl::ZeroDuration();
}

// ---- The end ---------------------------------------------------------------------------------

Task<void> SessionKeeper::Disconnect(absl::Duration most) {
  if (Session* session = this->session()) {
    Task<void> task = session->Disconnect(Loop::Now() + most);
    co_await task;
  }
  Shutdown();
}

void SessionKeeper::Shutdown() {
  if (std::exchange(shut_down_, true)) return;
  path_watch_.Shutdown();
  if (session_ != nullptr) session_->Kill(Cancelled());
  ready_.WakeAll(Cancelled());
  pauses_.WakeAll(Cancelled());
}

void SessionKeeper::Fill(WorkerReport& report) const {
  history_.Fill(session(), report);
  report.totals = totals_;
}

}  // namespace dafs::client
