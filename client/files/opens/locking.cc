#include "client/files/opens/locking.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/files/opens/delegating.h"
#include "client/files/opens/lock_wait.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/committer.h"
#include "client/session/session_keeper.h"
#include "runtime/status_macros.h"

namespace dafs::client {

using wire::DafsStatus;
using wire::LockRange;

namespace {

// Registers a wait with the client's lock table, from the first denial on.
class KnownWait {
 public:
  explicit KnownWait(Locks& locks) : locks_(locks) {}
  ~KnownWait() {
    if (begun_) locks_.EndWait(&wait_);
  }
  KnownWait(const KnownWait&) = delete;
  KnownWait& operator=(const KnownWait&) = delete;

  bool begun() const { return begun_; }
  const LockOwner& owner() const { return wait_.owner; }
  void Begin(LockWait& wait, const LockOwner& owner, const LockRange& range) {
    begun_ = true;
    wait_.owner = owner;
    wait_.owner.process = wait.Process();
    wait_.range = range;
    wait_.waker = wait.waker();
    locks_.BeginWait(&wait_);
  }
  void Denied(bool awaits) { locks_.Denied(&wait_, awaits); }
  bool IsDeadlock() const { return locks_.IsDeadlock(wait_); }
  // Null before Begin.
  const Locks::Wait* wait() const { return begun_ ? &wait_ : nullptr; }

 private:
  Locks& locks_;
  Locks::Wait wait_;
  bool begun_ = false;
};

// The last byte of a range from the network, for messages.
std::string EndOf(uint64_t offset, uint64_t length) {
  return length == wire::kLockToEnd || length == 0 || offset > UINT64_MAX - (length - 1)
             ? "the end"
             : absl::StrCat(offset + length - 1);
}

}  // namespace

// LOCK, and the attributes of the file under the lock.
Task<absl::StatusOr<LockAnswer>> LockOperations::LockOnce(const Identity& user,
                                                          const LockOwner& owner,
                                                          const LockRange& range,
                                                          wire::LockType type, uint32_t options) {
  Call<wire::LockArgs> lock;
  StatCall stat;
  lock.args.filehandle = owner.file;
  lock.args.lock_type = type;
  lock.args.options = options;
  lock.args.state_id = owner.state_id;
  lock.args.offset = range.first;
  lock.args.length = wire::LengthOf(range);
  CallBase* const chain[] = {&lock, &stat};
  Task<absl::Status> task =
      Run(&user, type == wire::LockType::kAbort ? std::span<CallBase* const>(chain, 1)
                                                : std::span<CallBase* const>(chain));
  CO_RETURN_IF_ERROR(co_await task);
  LockAnswer answer;
  if (lock.status == DafsStatus::kDenied) {
    answer.outcome = LockOutcome::kDenied;
    answer.by_client = !lock.res.owner_clientid.is_zero();
    co_return answer;
  }
  if (lock.status == DafsStatus::kDeadlock) {
    answer.outcome = LockOutcome::kDeadlock;
    co_return answer;
  }
  if (lock.status == DafsStatus::kLockBroken) {
    co_return StatusOf(lock, absl::StrCat("lock: bytes ", lock.res.offset, " to ",
                                          EndOf(lock.res.offset, lock.res.length), " of '",
                                          absl::CHexEscape(lock.res.owner), "'"));
  }
  if (!lock.ok()) co_return StatusOf(lock, "lock");
  if (stat.ok()) answer.attributes = stat.Take();
  answer.client_id = lock.xid.client_id;
  co_return answer;
}

// Options of the LOCK request for a known wait (private).
uint32_t LockOperations::WaitOptions(const LockOwner& owner) const {
  const uint64_t extensions = client_.limits().extensions.load(std::memory_order_relaxed);
  if ((extensions & wire::kExtensionLockWaits) == 0) return 0;
  return (client_.locks().announced() ? wire::kLockAwaits : 0) |
         (owner.process != 0 ? wire::kLockOfProcess : 0);
}

// LOCK, and records the result. Before, all locks of the file must be at the server.
Task<absl::StatusOr<LockAnswer>> LockOperations::LockAtServer(const Identity& user,
                                                              const LockOwner& owner,
                                                              const LockRange& range,
                                                              wire::LockType type,
                                                              uint32_t options) {
  const Locks::AtServer asking(client_.locks(), owner.file);
  Task<absl::Status> opening = delegating_.MakeReal(owner.state_id);
  CO_RETURN_IF_ERROR(co_await opening);
  for (const wire::StateId& other : client_.locks().LocalOpens(owner.file)) {
    Task<absl::Status> sharing = delegating_.MakeReal(other);
    absl::Status ignored = co_await sharing;  // its locks are lost, or claimed by its next use
  }
  for (;;) {
    Task<absl::StatusOr<LockAnswer>> task = LockOnce(user, owner, range, type, options);
    absl::StatusOr<LockAnswer> answer = co_await task;
    if (!answer.ok() || answer->outcome != LockOutcome::kGranted) co_return answer;
    answer->before = client_.locks().Granted(owner, range);
    if (client_.opens().StateIdOf(owner.state_id, answer->client_id).has_value()) co_return answer;
    // The lock was granted by a server that has restarted since; the reclaim of its opens missed
    // it.
    client_.locks().Released(owner, range.first, range.last);
    for (const LockRange& had : answer->before) client_.locks().Granted(owner, had);
  }
}

Task<absl::StatusOr<LockAnswer>> LockOperations::Lock(const Identity& user, const LockOwner& owner,
                                                      const LockRange& range, LockWait* wait,
                                                      LockOptions lock_options) {
  const uint32_t kind = (lock_options.persist ? wire::kLockPersist : 0) |
                        (lock_options.auto_recovery ? wire::kLockAutorecovery : 0) |
                        (lock_options.repair ? wire::kLockRepair : 0);
  KnownWait known(client_.locks());
  bool is_queued = false;  // perhaps, at the server
  for (;;) {
    const uint32_t options = known.begun() ? WaitOptions(known.owner()) : 0;
    absl::StatusOr<LockAnswer> answer;
    std::optional<LockAnswer> local;
    // A lock that only this client knows would not outlive it.
    if (!lock_options.any()) local = client_.delegations().locks().Lock(owner, range, known.wait());
    if (local) {
      answer = *std::move(local);
    } else {
      const wire::LockType type = wire::TypeOf(range, wait != nullptr);
      Task<absl::StatusOr<LockAnswer>> task =
          LockAtServer(user, owner, range, type, options | kind);
      answer = co_await task;
      is_queued = true;
    }
    if (!answer.ok() || answer->outcome == LockOutcome::kDeadlock ||
        answer->outcome == LockOutcome::kGranted) {
      co_return answer;
    }
    // flock(2) releases a lock of the other type before it requests this one.
    if (range.is_flock() && !answer->is_local) {
      client_.locks().Released(owner, range.first, range.last);
    }
    if (wait == nullptr) co_return answer;
    const bool first = !known.begun();
    if (first) known.Begin(*wait, owner, range);
    const bool announced =
        (options & wire::kLockAwaits) != 0 && answer->by_client && !answer->is_local;
    known.Denied(announced);
    if (wait->cancelled()) {
      answer->outcome = LockOutcome::kCancelled;
    } else if (known.IsDeadlock()) {
      answer->outcome = LockOutcome::kDeadlock;
    }
    if (answer->outcome != LockOutcome::kDenied) {
      // Nothing waits for this: the caller may have been cancelled because the server is
      // unreachable.
      if (is_queued) Start(Abandon(user, owner, range));
      co_return answer;
    }
    // The lock might have been released before Begin, or announced, so only this request asks the
    // server for an announcement.
    if (first && (answer->is_local || WaitOptions(known.owner()) != 0)) continue;
    waits_.insert(wait);
    Task<absl::Status> pause = wait->Pause(announced);
    absl::Status paused = co_await pause;
    waits_.erase(wait);
    if (!paused.ok()) co_return paused;
  }
}

// 6.5.18 ABORT: releases the place in the queue. A server that does not know the wait ignores it.
Task<void> LockOperations::Abandon(Identity user, LockOwner owner, LockRange range) {
  Task<absl::StatusOr<LockAnswer>> task = LockOnce(user, owner, range, wire::LockType::kAbort);
  absl::StatusOr<LockAnswer> ignored = co_await task;
}

Task<absl::Status> LockOperations::Abort(const Identity& user, const LockOwner& owner,
                                         const LockRange& range) {
  if (client_.opens().InfoOf(owner.state_id) == nullptr) {
    co_return absl::AbortedError("abort a lock: the file was closed");
  }
  Task<absl::Status> opening = delegating_.MakeReal(owner.state_id);
  CO_RETURN_IF_ERROR(co_await opening);
  // Data that is not stable would be written again if the server lost it, after the rollback.
  Task<void> committing = CommitBeforeUnlock(user, owner.file);
  co_await committing;
  Task<absl::StatusOr<LockAnswer>> task = LockOnce(user, owner, range, wire::LockType::kAbort);
  absl::StatusOr<LockAnswer> answer = co_await task;
  co_return answer.status();
}

void LockOperations::EndWaits(const absl::Status& why) {
  while (!waits_.empty()) {
    LockWait* wait = *waits_.begin();
    waits_.erase(waits_.begin());
    wait->End(why);
  }
}

Task<absl::StatusOr<std::optional<LockConflict>>> LockOperations::TestLock(
    const Identity& user, const wire::FileHandle& file, std::string_view owner,
    const LockRange& range) {
  if (auto known = client_.delegations().locks().TestLock(file, owner, range))
    co_return *std::move(known);
  Call<wire::LocktArgs> call;
  call.args.filehandle = file;
  call.args.lock_type = wire::TypeOf(range);
  call.args.owner = owner;
  call.args.offset = range.first;
  call.args.length = wire::LengthOf(range);
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = Run(&user, chain);
  CO_RETURN_IF_ERROR(co_await task);
  if (call.ok()) co_return std::optional<LockConflict>();
  if (call.status != DafsStatus::kDenied) co_return StatusOf(call, "test lock");
  LockConflict conflict;
  const Session* session = session_keeper_.session();
  conflict.ours = session != nullptr && session->negotiated().client_id == call.res.owner_clientid;
  conflict.owner = call.res.owner;
  // From the network: a length of 0 would be an empty range.
  conflict.range = wire::LockRangeOf(call.res.offset, std::max<uint64_t>(call.res.length, 1),
                                     call.res.lock_type);
  co_return std::optional<LockConflict>(std::move(conflict));
}

// Data written under a lock must be stable before the next holder writes. Otherwise a rewrite after
// a crash of the server's machine could overwrite the next holder's data. fsync reports an error.
Task<void> LockOperations::CommitBeforeUnlock(const Identity& user, const wire::FileHandle& file) {
  if (!client_.uncommitted().Holds(file)) co_return;
  Task<absl::StatusOr<wire::Verifier>> task = committer_.CommitAll(user, file, 0, 0);
  absl::StatusOr<wire::Verifier> ignored = co_await task;
}

Task<absl::Status> LockOperations::Unlock(const Identity& user, const LockOwner& owner,
                                          uint64_t first, uint64_t last) {
  for (;;) {
    const DelegationLocks::Unlocking unlocking =
        client_.delegations().locks().Unlock(owner, first, last);
    if (unlocking == DelegationLocks::Unlocking::kDone) co_return absl::OkStatus();
    if (unlocking == DelegationLocks::Unlocking::kAtServer) break;
    // If the server does not know the delegation, the unlock goes on. Otherwise the reclaim of the
    // open would claim the lock again.
    Task<absl::Status> becoming_real = delegating_.MakeReal(owner.state_id);
    const absl::Status status = co_await becoming_real;
    if (absl::IsCancelled(status)) co_return status;
  }
  Task<void> committing = CommitBeforeUnlock(user, owner.file);
  co_await committing;
  Call<wire::LockuArgs> call;
  call.args = UnlockArgs(owner.file, owner.state_id, first, last);
  CallBase* const chain[] = {&call};
  const std::vector<LockRange> before = client_.locks().HeldBy(owner.file, owner.state_id);
  const bool held = client_.locks().Release(owner, first, last);
  Task<absl::Status> task = RunAll(&user, chain, "unlock");
  absl::Status status = co_await task;
  if (wire::DafsFromStatus(status) == DafsStatus::kLockRange) {
    // A server that does not split locks (4.4.1.2) has released nothing.
    for (const LockRange& range : before) client_.locks().Granted(owner, range);
    co_return status;
  }
  if (held) client_.locks().Wake(owner.file, {{first, last, true}});
  co_return status;
}

// A read of no bytes with the lock's open. If the server has dropped the open, its refusal leads to
// ReclaimOpen.
Task<void> LockOperations::ValidateLock(LockOwner owner) {
  std::optional<Opens::Entry> entry = client_.opens().Find(owner.state_id);
  if (!entry.has_value() || !entry->lost.ok()) co_return;
  Call<wire::ReadInlineArgs> read;
  read.args.filehandle = owner.file;
  read.args.state_id = owner.state_id;
  CallBase* const chain[] = {&read};
  Task<absl::Status> task = Run(&entry->info->user, chain);
  absl::Status ignored = co_await task;
}

Task<void> LockOperations::ValidateLocks() {
  for (const LockOwner& owner : client_.locks().Owners()) {
    Task<void> task = ValidateLock(owner);
    co_await task;
  }
}

// Turns the write lock into a read lock where `before` has one, and unlocks the gaps.
Task<absl::Status> LockOperations::GiveBack(const Identity& user, const LockOwner& owner,
                                            const LockRange& range,
                                            const std::vector<LockRange>& before) {
  uint64_t next = range.first;
  bool done = false;
  for (const LockRange& had : before) {
    if (next < had.first) {
      Task<absl::Status> unlock = Unlock(user, owner, next, had.first - 1);
      CO_RETURN_IF_ERROR(co_await unlock);
    }
    if (had.write != range.write) {
      Task<absl::StatusOr<LockAnswer>> lock = Lock(user, owner, had);
      absl::StatusOr<LockAnswer> answer = co_await lock;
      if (!answer.ok()) co_return answer.status();
    }
    done = had.last == range.last;
    next = had.last + 1;
  }
  if (done) co_return absl::OkStatus();
  Task<absl::Status> unlock = Unlock(user, owner, next, range.last);
  absl::Status status = co_await unlock;
  co_return status;
}

// 4.4.1.2: a client releases its locks before it closes. Uses one chain; a later CLOSE releases the
// rest.
Task<void> LockOperations::UnlockBeforeClose(const Identity& user, const wire::FileHandle& file,
                                             const wire::StateId& state_id,
                                             const std::vector<LockRange>& held) {
  Call<wire::LockuArgs> records;
  Call<wire::LockuArgs> flock;
  std::vector<CallBase*> chain;
  if (!held.front().is_flock()) {
    records.args = UnlockArgs(file, state_id, 0, wire::kFlockByte - 1);
    chain.push_back(&records);
  }
  if (held.back().is_flock()) {
    flock.args = UnlockArgs(file, state_id, wire::kFlockByte, wire::kFlockByte);
    chain.push_back(&flock);
  }
  Task<absl::Status> task = Run(&user, chain);
  absl::Status ignored = co_await task;
  // A server that releases locks only in the ranges in which they were granted.
  if (records.status != DafsStatus::kLockRange) co_return;
  for (const LockRange& range : held) {
    Call<wire::LockuArgs> one;
    one.args = UnlockArgs(file, state_id, range.first, range.last);
    CallBase* const alone[] = {&one};
    Task<absl::Status> unlocking = Run(&user, alone);
    ignored = co_await unlocking;
  }
}

Task<void> LockOperations::ReleaseBeforeClose(const Identity& user, const wire::FileHandle& file,
                                              const wire::StateId& state_id) {
  // Commit while the client still holds the locks. If the server crashes now, they are reclaimed,
  // so that no other client gets them before the data is written again.
  Task<void> committing = CommitBeforeUnlock(user, file);
  co_await committing;
  const std::vector<LockRange> held = client_.locks().Forget(file, state_id);
  if (held.empty()) co_return;
  Task<void> unlock = UnlockBeforeClose(user, file, state_id, held);
  co_await unlock;
  client_.locks().Wake(file, held);
}

}  // namespace dafs::client
