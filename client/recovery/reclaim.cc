#include "client/recovery/reclaim.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/exchange/call.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/calls/retry_pause.h"
#include "client/recovery/committer.h"
#include "client/recovery/left_sessions.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"

namespace dafs::client {

using wire::DafsStatus;
using wire::LockRange;

namespace {

constexpr absl::Duration kPause = absl::Seconds(1);  // before everything is retried

// LOCK, LOCKU and CLOSE with the state id that the server has just given. The client does not use
// it yet.
template <class Args>
class ReclaimCall : public Call<Args> {
 public:
  wire::StateId* state_id_argument() override { return nullptr; }
};

}  // namespace

Reclaim::Reclaim(RequestExecutor& executor, Committer& committer)
    : executor_(executor),
      committer_(committer),
      client_(executor.client()),
      session_keeper_(executor.session_keeper()),
      done_(executor.loop()) {
  executor_.GuardBy(*this);
  committer_.OnRestored([this] { done_.WakeAll(absl::OkStatus()); });  // waiters check again
}

void Reclaim::SessionReady(const Session& session) {
  if (!IsDone(session.negotiated().client_id)) Start();
}

void Reclaim::Start() {
  if (std::exchange(reclaiming_, true)) return;
  dafs::Start(ReclaimAll());
}

Task<absl::Status> Reclaim::Await(absl::Time deadline) {
  Start();
  if (!reclaiming_) co_return absl::OkStatus();  // nothing to reclaim
  absl::Status status = co_await done_.Wait(deadline);
  if (absl::IsDeadlineExceeded(status)) {
    status = absl::DeadlineExceededError("opens are still being reclaimed from the server");
  }
  co_return status;
}

bool Reclaim::restoring() const { return committer_.restoring(); }

Task<absl::Status> Reclaim::AwaitRestored(absl::Time deadline) {
  absl::Status status = co_await done_.Wait(deadline);
  if (absl::IsDeadlineExceeded(status)) {
    status = absl::DeadlineExceededError("lost data is still being written again");
  }
  co_return status;
}

Task<void> Reclaim::ReclaimAll() {
  for (Session* session = session_keeper_.session();
       session != nullptr && !IsDone(session->negotiated().client_id);
       session = session_keeper_.session()) {
    Task<absl::Status> task = ReclaimUnder(session->negotiated().client_id);
    absl::Status status = co_await task;
    if (status.ok()) continue;
    if (absl::IsCancelled(status)) break;
    LogWarning(absl::StrCat(session_keeper_.name(),
                            ": reclaim of opens failed, retrying: ", status.message()));
    Task<absl::Status> pause = session_keeper_.Pause(kPause);
    if (!(co_await pause).ok()) break;
  }
  reclaiming_ = false;
  done_.WakeAll(absl::OkStatus());  // waiters check again
}

Task<absl::Status> Reclaim::ReclaimUnder(wire::ClientId client_id) {
  Task<absl::Status> ending = EndLeftSessions(client_, session_keeper_, executor_.wait_tracker());
  CO_RETURN_IF_ERROR(co_await ending);
  const std::vector<wire::StateId> stale = client_.opens().Stale(client_id);
  WaitTracker::Wait wait(executor_.wait_tracker(),
                         absl::StrCat("reclaiming ", stale.size(), " opens"));
  RetryPause pause(session_keeper_, executor_.wait_tracker());
  for (std::vector<wire::StateId> left = stale;;) {
    Task<absl::Status> round = ReclaimRound(left);
    CO_RETURN_IF_ERROR(co_await round);
    if (left.empty()) break;
    Task<absl::Status> waiting = pause.Wait(
        absl::StrCat("reclaiming ", left.size(), " opens: the server asks to wait (DELAY)"));
    CO_RETURN_IF_ERROR(co_await waiting);
    const Session* session = session_keeper_.session();
    if (session != nullptr && session->negotiated().client_id != client_id) {
      co_return absl::OkStatus();  // the server restarted again: all opens are to be reclaimed
    }
  }
  const bool restarted = !reclaimed_under_.is_zero();
  if (restarted) {
    Task<void> saying = SendDelegPurge(client_id);
    co_await saying;
  }
  reclaimed_under_ = client_id;
  if (restarted) dafs::Start(SendAnyRequest());
  // The restart may have lost uncommitted data. Other workers may have written it, so this also
  // runs on the first session of this worker.
  committer_.StartRestoring();
  if (!stale.empty()) {
    LogNotice(absl::StrCat(session_keeper_.name(), ": ", stale.size(),
                           " opens reclaimed from the restarted server"));
  }
  co_return absl::OkStatus();
}

Task<absl::Status> Reclaim::ReclaimRound(std::vector<wire::StateId>& left) {
  std::vector<wire::StateId> delayed;
  for (const wire::StateId& open : left) {
    std::optional<Opens::Entry> entry = client_.opens().Find(open);
    if (!entry.has_value() || !entry->lost.ok()) continue;  // closed meanwhile, or lost
    Task<absl::StatusOr<bool>> task = TryReclaim(open, RequestExecutor::Gate::kImpatient);
    absl::StatusOr<bool> reclaimed = co_await task;
    const absl::Status& status = reclaimed.status();
    if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
        absl::IsCancelled(status)) {
      co_return status;  // the error is not about this open
    }
    if (!status.ok()) {
      GiveUpOpen(open, status);  // a failure of one user's open must not block the others
    } else if (!*reclaimed) {
      delayed.push_back(open);
    }
  }
  left = std::move(delayed);
  co_return absl::OkStatus();
}

Task<void> Reclaim::SendAnyRequest() {
  const std::optional<wire::FileHandle> root = client_.root().Latest();
  if (!root.has_value()) co_return;
  Call<wire::GetattrInlineArgs> ask;
  ask.args.filehandle = *root;
  CallBase* const chain[] = {&ask};
  const Identity self{};
  Task<absl::Status> asking = executor_.RunGated(RequestExecutor::Gate::kNone, &self, chain);
  absl::Status ignored = co_await asking;
}

// Not repeated on another session: with that there may be other opens to claim.
Task<void> Reclaim::SendDelegPurge(wire::ClientId client_id) {
  Session* const session = session_keeper_.session();
  if (!client_.options().callbacks || session == nullptr ||
      session->negotiated().client_id != client_id) {
    co_return;
  }
  Call<wire::DelegpurgeArgs> purge;
  CallBase* const chain[] = {&purge};
  Task<absl::Status> task = session->Run(wire::CredHandle(), chain, absl::InfiniteFuture());
  absl::Status ignored = co_await task;  // the server then waits until its grace period ends
}

Task<absl::Status> Reclaim::ReclaimOpen(wire::StateId open) {
  Task<absl::StatusOr<bool>> task = TryReclaim(open, RequestExecutor::Gate::kNone);
  absl::StatusOr<bool> reclaimed = co_await task;
  co_return reclaimed.status();
}

Task<absl::StatusOr<bool>> Reclaim::TryReclaim(wire::StateId open, RequestExecutor::Gate gate) {
  std::optional<Opens::Entry> entry = client_.opens().Find(open);
  if (!entry.has_value()) {
    co_return wire::StatusFromDafs(DafsStatus::kBadStateId, "a file that is closed");
  }
  if (!entry->lost.ok()) co_return entry->lost;
  // Another worker may have reclaimed it.
  if (Session* session = session_keeper_.session();
      session != nullptr &&
      client_.opens().StateIdOf(open, session->negotiated().client_id).has_value()) {
    co_return true;
  }
  Call<wire::OpenArgs> claim;
  claim.args.claim_type = wire::OpenClaimType::kPrevious;
  claim.args.filehandle = entry->info->handle;
  claim.args.owner = entry->info->owner;
  claim.args.share_access = entry->info->share_access;
  claim.args.share_deny = entry->info->share_deny;
  if (entry->info->deny_delete) claim.args.delete_disp = wire::OpenDeleteDisp::kDeny;
  if (entry->info->share_key.has_value()) {
    claim.args.share_key_type = wire::ShareKeyType::kBoth;
    claim.args.share_key = *entry->info->share_key;
  }
  CallBase* const chain[] = {&claim};
  Task<absl::Status> claiming = executor_.RunGated(gate, &entry->info->user, chain);
  CO_RETURN_IF_ERROR(co_await claiming);
  if (gate == RequestExecutor::Gate::kImpatient && claim.status == DafsStatus::kDelay)
    co_return false;
  if (!claim.ok()) {
    Task<absl::Status> again = OpenAgain(open, *entry, claim.status);
    CO_RETURN_IF_ERROR(co_await again);
    co_return true;
  }
  Reclaimed reclaimed{.state_id = claim.res.state_id, .client_id = claim.xid.client_id};
  Task<absl::Status> locking = ReclaimLocks(open, &reclaimed);
  absl::Status locked = co_await locking;
  if (locked.ok() && !reclaimed.forgotten) {
    Task<void> taking = TakeReclaimed(open, *entry, reclaimed.state_id, reclaimed.client_id);
    co_await taking;
    Task<absl::Status> locking_again = ReclaimLocks(open, &reclaimed);
    locked = co_await locking_again;
  }
  if (reclaimed.forgotten) {
    Task<absl::StatusOr<bool>> again = TryReclaim(open, gate);
    co_return co_await again;
  }
  if (!locked.ok()) GiveUpOpen(open, locked);
  co_return true;
}

// The server refuses the claim: its grace period is over, or it never knew the open. A plain open
// is made again. An open with a share reservation or a lock is lost, since another client may have
// taken it.
Task<absl::Status> Reclaim::OpenAgain(wire::StateId open, Opens::Entry entry, DafsStatus refused) {
  const OpenInfo& info = *entry.info;
  absl::Status why = wire::StatusFromDafs(refused, "reclaim an open");
  if (absl::IsAborted(why) && refused != DafsStatus::kExpired &&
      refused != DafsStatus::kStaleStateId && refused != DafsStatus::kBadStateId) {
    GiveUpOpen(open, why);  // the file does not exist any more
    co_return absl::OkStatus();
  }
  if (info.Reserves() || HoldsLocks(open)) {
    GiveUpOpen(open, absl::UnknownError(absl::StrCat(
                         "the server gave up a lock or a share reservation: ", why.message())));
    co_return absl::OkStatus();
  }
  Call<wire::OpenHandleArgs> again;
  again.args.filehandle = info.handle;
  again.args.share_access = info.share_access;
  again.args.owner = info.owner;
  Call<wire::OpenExecuteArgs> executing;
  executing.args.filehandle = info.handle;
  executing.args.owner = info.owner;
  CallBase* const call = info.executes ? static_cast<CallBase*>(&executing) : &again;
  CallBase* const chain[] = {call};
  Task<absl::Status> opening = executor_.RunGated(RequestExecutor::Gate::kNone, &info.user, chain);
  CO_RETURN_IF_ERROR(co_await opening);
  // If the server lacks OPEN_HANDLE, the client sends I/O without a state id, which the server
  // checks each time (WIRE R64).
  if (!call->ok() && call->status != DafsStatus::kNotSupp) {
    GiveUpOpen(open, StatusOf(*call, "open again after the server forgot"));
    co_return absl::OkStatus();
  }
  // Zero after NOTSUPP.
  const wire::StateId state_id = info.executes ? executing.res.state_id : again.res.state_id;
  Task<void> taking = TakeReclaimed(open, entry, state_id, call->xid.client_id);
  co_await taking;
  co_return absl::OkStatus();
}

// Records `state_id` as the server's new name of `open`. Sends CLOSE if `open` was closed
// meanwhile.
Task<void> Reclaim::TakeReclaimed(wire::StateId open, Opens::Entry entry, wire::StateId state_id,
                                  wire::ClientId client_id) {
  if (client_.delegations().MadeReal(open, state_id, client_id) || state_id.is_zero()) co_return;
  ReclaimCall<wire::CloseArgs> close;
  close.args.filehandle = entry.info->handle;
  close.args.state_id = state_id;
  CallBase* const chain[] = {&close};
  Task<absl::Status> task =
      executor_.RunGated(RequestExecutor::Gate::kImpatient, &entry.info->user, chain);
  absl::Status ignored = co_await task;
}

// If a lock is lost, every open of its file is lost: the program that relied on the lock may write
// through another open. An open that is being closed fails silently: a file without a name
// disappears with its CLOSE.
void Reclaim::GiveUpOpen(const wire::StateId& open, const absl::Status& why) {
  std::optional<Opens::Entry> entry = client_.opens().Find(open);
  // Data written under the lock or share reservation is not written again: another client may have
  // written since.
  if (entry.has_value() && (HoldsLocks(open) || entry->info->Reserves()) &&
      client_.uncommitted().Holds(entry->info->handle)) {
    client_.uncommitted().Drop(entry->info->handle);
    client_.lost_data().NoteDropped(entry->info->handle, why);
  }
  if (entry.has_value() && entry->closing) {
    client_.opens().Lost(open, why);
    return;
  }
  LogError(absl::StrCat(session_keeper_.name(),
                        ": an open file could not be reclaimed from the server: ", why.message(),
                        "; its next use fails"));
  if (entry.has_value() && HoldsLocks(open)) {
    client_.opens().LostAllOf(entry->info->handle, why);
  } else {
    client_.opens().Lost(open, why);
  }
}

// 4.4.1.2: uses RECLAIM. The server grants it only while no other client can have taken the lock.
// Claims the ranges that are not in `reclaimed->locks`, and unlocks ranges released since.
Task<absl::Status> Reclaim::ReclaimLocks(wire::StateId open, Reclaimed* reclaimed) {
  std::optional<Opens::Entry> entry = client_.opens().Find(open);
  if (!entry.has_value()) co_return absl::OkStatus();
  const wire::FileHandle file = entry->info->handle;
  const std::vector<LockRange> held = client_.locks().HeldBy(file, open);
  wire::LockRanges released = reclaimed->locks;
  for (const LockRange& range : held) {
    released.Clear(range.first, range.last);
    if (reclaimed->locks.Covers(range)) continue;
    ReclaimCall<wire::LockArgs> lock;
    lock.args.filehandle = file;
    lock.args.lock_type = wire::TypeOf(range);
    lock.args.options = wire::kLockReclaim;
    lock.args.state_id = reclaimed->state_id;
    lock.args.offset = range.first;
    lock.args.length = wire::LengthOf(range);
    CallBase* const chain[] = {&lock};
    Task<absl::Status> task =
        executor_.RunGated(RequestExecutor::Gate::kNone, &entry->info->user, chain);
    CO_RETURN_IF_ERROR(co_await task);
    reclaimed->forgotten = lock.xid.client_id != reclaimed->client_id;
    if (reclaimed->forgotten) co_return absl::OkStatus();
    if (!lock.ok()) co_return StatusOf(lock, "reclaim a lock");
    reclaimed->locks.Set(range);
  }
  for (const LockRange& range : released.ranges()) {
    ReclaimCall<wire::LockuArgs> unlock;
    unlock.args = UnlockArgs(file, reclaimed->state_id, range.first, range.last);
    CallBase* const chain[] = {&unlock};
    Task<absl::Status> task =
        executor_.RunGated(RequestExecutor::Gate::kNone, &entry->info->user, chain);
    CO_RETURN_IF_ERROR(co_await task);
    reclaimed->forgotten = unlock.xid.client_id != reclaimed->client_id;
    if (reclaimed->forgotten) co_return absl::OkStatus();
    reclaimed->locks.Clear(range.first, range.last);
  }
  co_return absl::OkStatus();
}

// Whether this client holds a lock on the file of `open`, through any open: record locks have opens
// of their own.
bool Reclaim::HoldsLocks(const wire::StateId& open) const {
  std::optional<Opens::Entry> entry = client_.opens().Find(open);
  return entry.has_value() && client_.locks().IsLocked(entry->info->handle);
}

}  // namespace dafs::client
