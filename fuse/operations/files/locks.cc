#include "fuse/operations/files/locks.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "client/files/opens/lock_wait.h"
#include "fuse/files/lock_owners.h"
#include "fuse/kernel/errno.h"
#include "fuse/request/caller_call.h"
#include "runtime/files/lock_ioctl.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop_wait.h"

namespace dafs::fuse {

struct LockOperations::Request {
  std::shared_ptr<OpenState> open;
  uint64_t handle = 0;
  uint64_t kernel_owner = 0;
  wire::LockRange range;
  bool unlocks = false;
  bool waits = false;
  uint32_t pid = 0;
  client::LockOptions options;
};

namespace {

constexpr uint64_t kOffsetMost = std::numeric_limits<off_t>::max();  // the kernel's "to the end"

wire::LockRange RangeOf(const fuse_lk_in& in) {
  const bool write = in.lk.type == F_WRLCK;
  if (in.lk_flags & FUSE_LK_FLOCK) return wire::FlockRange(write);
  return {in.lk.start, in.lk.end == kOffsetMost ? wire::kFlockByte - 1 : in.lk.end, write};
}

bool IsValid(const fuse_lk_in& in) {
  return in.lk.start <= in.lk.end && in.lk.end <= kOffsetMost &&
         (in.lk.type == F_RDLCK || in.lk.type == F_WRLCK || in.lk.type == F_UNLCK);
}

// Answers a call that has succeeded. That of an IOCTL has a body.
bool ReplyDone(Call& call) {
  if (call.header().opcode != FUSE_IOCTL) return call.ReplyOk();
  const fuse_ioctl_out out = {};
  return call.Reply({AsBytes(out)});
}

// Returns the errno of a failed lock. If the server has no locks, it is ENOLCK, and a warning with
// the remedy is logged once.
int LockErrno(const absl::Status& status, const Options& options) {
  if (wire::DafsFromStatus(status) == wire::DafsStatus::kResource) return ENOLCK;
  if (!absl::IsUnimplemented(status)) return ErrnoFromStatus(status);
  static std::atomic<bool> said{false};  // publishes no other data
  if (!said.exchange(true)) {
    LogWarning(options.source.text +
               (options.persist_locks
                    ? ": the server keeps no persistent locks, and locking fails with ENOLCK; "
                      "mount without persist_locks"
                    : ": the server keeps no locks, and locking fails with ENOLCK; mount with "
                      "local_lock=all to keep locks on this machine"));
  }
  return ENOLCK;
}

}  // namespace

// If the request waits, returns when the lock is granted or the caller gets any signal.
Task<absl::StatusOr<client::LockAnswer>> LockOperations::TakeLock(Call& call,
                                                                  const Request& request,
                                                                  const client::Identity& user,
                                                                  const client::LockOwner& owner) {
  if (!request.waits) {
    Task<absl::StatusOr<client::LockAnswer>> task =
        files_.Of(user).locks().Lock(user, owner, request.range, nullptr, request.options);
    absl::StatusOr<client::LockAnswer> answer = co_await task;
    co_return answer;
  }
  client::LockWait wait(files_.loop(), [this, &call, &owner] {
    return WaitsForOfdLock(call.header().pid, context_.callers) ? 0 : owner.process;
  });
  call.on_interrupt = [&wait] { wait.Cancel(); };
  if (call.interrupted) wait.Cancel();
  Task<absl::StatusOr<client::LockAnswer>> task =
      files_.Of(user).locks().Lock(user, owner, request.range, &wait, request.options);
  absl::StatusOr<client::LockAnswer> answer = co_await task;
  call.on_interrupt = nullptr;
  co_return answer;
}

// The holder of a lock must see what others wrote under their locks. Invalidates the kernel's
// cached pages and attributes, unless they have the same CHANGE as the file under the lock. Times
// and size are not reliable for that.
Task<void> LockOperations::ShowWhatIsUnderLock(Call& call, const OpenState& open,
                                               const client::LockAnswer& answer) {
  const uint64_t nodeid = call.nodeid();
  if (answer.is_local) {
    // Only this mount has changed the file since the open, through the kernel's pages or past them.
    if (BypassesPages(open.flags) ||
        !state_.caches.pages.WereBypassed(nodeid, open.bypasses_before)) {
      co_return;
    }
  }
  const wire::FileAttributes& attributes = answer.attributes;
  const bool known = attributes.has(wire::kFattrChange);
  state_.caches.attributes.InvalidatePrefetched(nodeid);
  // The open through which the lock was taken has dropped older pages.
  const bool pages = known && (open.change == attributes.change ||
                               state_.caches.pages.AreCurrent(nodeid, attributes.change));
  if (pages || state_.notifier == nullptr) {
    // The caller uses the node until this call is answered, so the notification does not block.
    const bool current =
        known && state_.caches.attributes.KernelIsCurrent(nodeid, attributes.change);
    if (!current && !call.answered()) context_.attributes.Forget(nodeid);
    co_return;
  }
  LoopWait dropped(files_.loop());
  state_.notifier->DropPages(nodeid, [waker = dropped.waker()] { waker.Wake(); });
  absl::Status ignored = co_await dropped.Wait();
  state_.caches.attributes.Invalidated(nodeid);
  if (known) state_.caches.pages.Are(nodeid, attributes.change);
}

// Answers the call. Returns false if the lock was granted but the kernel did not accept the answer.
Task<bool> LockOperations::Reply(Call& call, const OpenState& open,
                                 const absl::StatusOr<client::LockAnswer>& answer) {
  if (!answer.ok()) {
    call.ReplyErrno(LockErrno(answer.status(), state_.options));
    co_return true;
  }
  switch (answer->outcome) {
    case client::LockOutcome::kDenied:
      call.ReplyErrno(EAGAIN);
      co_return true;
    case client::LockOutcome::kCancelled:
      call.ReplyErrno(EINTR);
      co_return true;
    case client::LockOutcome::kDeadlock:
      call.ReplyErrno(EDEADLK);
      co_return true;
    case client::LockOutcome::kGranted:
      break;
  }
  Task<void> showing = ShowWhatIsUnderLock(call, open, *answer);
  co_await showing;
  co_return ReplyDone(call);
}

Task<void> LockOperations::Unlock(Call& call, const Request& request) {
  const OpenState& open = *request.open;
  absl::Status status;
  if (!open.state_id.is_zero()) {
    status = co_await files_.Of(*open.opener)
                 .locks()
                 .Unlock(*open.opener, {open.handle, open.state_id}, request.range.first,
                         request.range.last);
  }
  if (status.ok()) {
    ReplyDone(call);
  } else {
    call.ReplyErrno(LockErrno(status, state_.options));
  }
}

// Has the changes under the lock undone, and drops what the kernel has cached of them.
Task<void> LockOperations::AbortFlock(Call& call, const Request& request) {
  const OpenState& open = *request.open;
  if (open.state_id.is_zero()) {
    call.ReplyErrno(ENOLCK);
    co_return;
  }
  const client::LockOwner owner{open.handle, open.state_id};
  Task<absl::Status> aborting =
      files_.Of(*open.opener).locks().Abort(*open.opener, owner, request.range);
  const absl::Status status = co_await aborting;
  if (!status.ok()) {
    call.ReplyErrno(LockErrno(status, state_.options));
    co_return;
  }
  const client::LockAnswer unknown;  // without attributes: drops all pages
  Task<void> showing = ShowWhatIsUnderLock(call, open, unknown);
  co_await showing;
  ReplyDone(call);
}

Task<void> LockOperations::SetFlock(Call& call, const Request& request) {
  if (request.unlocks) {
    co_await Unlock(call, request);
    co_return;
  }
  const OpenState& open = *request.open;
  const client::LockOwner owner{open.handle, open.state_id};
  const client::Identity& user = *open.opener;
  if (owner.state_id.is_zero()) {
    call.ReplyErrno(ENOLCK);  // a server that cannot open this file by its handle
    co_return;
  }
  Task<absl::StatusOr<client::LockAnswer>> task = TakeLock(call, request, user, owner);
  absl::StatusOr<client::LockAnswer> answer = co_await task;
  Task<bool> replying = Reply(call, open, answer);
  const bool delivered = co_await replying;
  if (!delivered) {
    absl::Status ignored =
        co_await files_.Of(user).locks().GiveBack(user, owner, request.range, answer->before);
    ignored.IgnoreError();
  }
}

Task<void> LockOperations::SetRecordLock(Call& call, const Request& request) {
  LockOwner fresh;
  fresh.nodeid = call.nodeid();
  fresh.kernel_owner = request.kernel_owner;
  fresh.opener = request.open->opener;
  for (bool again = true; again;) {
    fresh.number = state_.owners.NewNumber();
    LockOwnerRef owner = state_.lock_owners.Enter(fresh, request.handle, request.pid);
    Task<absl::StatusOr<client::LockOwner>> opening =
        context_.lock_owners.OpenFor(*request.open, owner);
    absl::StatusOr<client::LockOwner> open = co_await opening;
    absl::StatusOr<client::LockAnswer> answer = absl::UnknownError("not asked");
    if (open.ok()) {
      Task<absl::StatusOr<client::LockAnswer>> taking =
          TakeLock(call, request, *owner->opener, *open);
      answer = co_await taking;
    } else {
      answer = open.status();
    }
    const bool granted = answer.ok() && answer->outcome == client::LockOutcome::kGranted;
    // The process may have closed a descriptor of the file meanwhile. That released its locks of
    // that time, but not this lock, for which another thread waits: it is requested again.
    again = granted && !call.answered() && state_.lock_owners.HasEnded(*owner);
    bool delivered = true;
    if (!again) {
      Task<bool> replying = Reply(call, *request.open, answer);
      delivered = co_await replying;
    }
    if (!delivered) {
      absl::Status ignored = co_await files_.Of(*owner->opener)
                                 .locks()
                                 .GiveBack(*owner->opener, *open, request.range, answer->before);
      ignored.IgnoreError();
    }
    Task<void> leaving = context_.lock_owners.Leave(owner);
    co_await leaving;
  }
}

Task<void> LockOperations::UnlockRecords(Call& call, const Request& request) {
  LockOwnerRef owner = state_.lock_owners.EnterExisting(call.nodeid(), request.kernel_owner);
  if (owner == nullptr) {
    call.ReplyOk();
    co_return;
  }
  absl::Status status;
  const client::LockOwner open{request.open->handle, state_.lock_owners.OpenOf(*owner)};
  if (!open.state_id.is_zero()) {
    status = co_await files_.Of(*owner->opener)
                 .locks()
                 .Unlock(*owner->opener, open, request.range.first, request.range.last);
  }
  call.ReplyErrno(LockErrno(status, state_.options));
  Task<void> leaving = context_.lock_owners.Leave(owner);
  co_await leaving;
}

Task<void> LockOperations::Setlk(Call& call) {
  RequestReader in = call.reader();
  auto lk = in.Take<fuse_lk_in>();
  if (!in.ok() || !IsValid(lk)) {
    call.ReplyErrno(EINVAL);
    co_return;
  }
  Request request;
  request.open = state_.open_files.Find(lk.fh);
  if (request.open == nullptr) {
    call.ReplyErrno(EBADF);
    co_return;
  }
  request.handle = lk.fh;
  request.kernel_owner = lk.owner;
  request.range = RangeOf(lk);
  request.unlocks = lk.lk.type == F_UNLCK;
  request.waits = call.header().opcode == FUSE_SETLKW;
  request.pid = lk.lk.pid;
  request.options.persist = state_.options.persist_locks;
  if (request.range.is_flock()) {
    co_await SetFlock(call, request);
  } else if (request.unlocks) {
    co_await UnlockRecords(call, request);
  } else {
    co_await SetRecordLock(call, request);
  }
}

Task<void> LockOperations::Ioctl(Call& call) {
  RequestReader in = call.reader();
  auto ioctl = in.Take<fuse_ioctl_in>();
  if (in.ok() && ioctl.cmd != kLockIoctl) {
    call.ReplyErrno(ENOTTY);
    co_return;
  }
  auto lock = in.Take<LockIoctl>();
  const bool write = lock.type == F_WRLCK;
  if (!in.ok() || (!write && lock.type != F_RDLCK && lock.type != F_UNLCK) ||
      (lock.flags & ~kLockIoctlFlags) != 0) {
    call.ReplyErrno(EINVAL);
    co_return;
  }
  Request request;
  request.open = state_.open_files.Find(ioctl.fh);
  if (request.open == nullptr) {
    call.ReplyErrno(ENOTTY);  // a directory
    co_return;
  }
  request.range = wire::FlockRange(write);
  if ((lock.flags & kLockIoctlRecords) != 0) request.range = {0, wire::kFlockByte - 1, write};
  request.unlocks = lock.type == F_UNLCK;
  request.options.persist = (lock.flags & kLockIoctlPersist) != 0 || state_.options.persist_locks;
  request.options.repair = (lock.flags & kLockIoctlRepair) != 0;
  request.options.auto_recovery = (lock.flags & kLockIoctlAutoRecover) != 0;
  if ((lock.flags & kLockIoctlAbort) != 0) {
    co_await AbortFlock(call, request);
  } else {
    co_await SetFlock(call, request);
  }
}

Task<void> LockOperations::Getlk(Call& call) {
  RequestReader in = call.reader();
  auto lk = in.Take<fuse_lk_in>();
  std::shared_ptr<OpenState> open = in.ok() ? state_.open_files.Find(lk.fh) : nullptr;
  if (open == nullptr || !IsValid(lk)) {
    call.ReplyErrno(in.ok() && open == nullptr ? EBADF : EINVAL);
    co_return;
  }
  LockOwnerRef owner = state_.lock_owners.EnterExisting(call.nodeid(), lk.owner);
  const std::string name = owner != nullptr ? owner->name : state_.owners.New();
  const client::Identity& user = owner != nullptr ? *owner->opener : *open->opener;
  const wire::LockRange range = RangeOf(lk);
  absl::StatusOr<std::optional<client::LockConflict>> found =
      co_await files_.Of(user).locks().TestLock(user, open->handle, name, range);
  if (!found.ok()) {
    call.ReplyErrno(LockErrno(found.status(), state_.options));
  } else {
    fuse_lk_out out = {};
    out.lk.type = F_UNLCK;
    // A lock beyond the kernel's last byte does not conflict.
    if (found->has_value() && (*found)->range.first <= kOffsetMost) {
      const client::LockConflict& conflict = **found;
      out.lk.type = conflict.range.write ? F_WRLCK : F_RDLCK;
      out.lk.start = conflict.range.first;
      out.lk.end = std::min(conflict.range.last, kOffsetMost);
      // A process on another machine has no pid here.
      if (conflict.ours) out.lk.pid = state_.lock_owners.PidOf(conflict.owner).value_or(0);
    }
    call.Reply({AsBytes(out)});
  }
  if (owner == nullptr) co_return;
  Task<void> leaving = context_.lock_owners.Leave(owner);
  co_await leaving;
}

}  // namespace dafs::fuse
