// LOCK, LOCKT, LOCKU, and the private OPEN_OWNER.
// Spec: 6.5.18, 6.5.19, 6.5.20, 4.4.1.2; WIRE 9.4 LOCK, LOCKT, LOCKU; R15.
//
// Locks are advisory, as on a local file system: reads and writes are not checked against them
// (4.4.1.2 leaves that to the server). Those with PERSIST or AUTORECOVERY are mandatory among
// clients (server/store/holdings/persistent_locks.h). The LockTable grants a lock among the
// clients. Then the server takes it in the kernel, against local programs.
//
// A blocking request (READW, WRITEW) gets its reply at once like any other: nothing waits here, and
// no slot is held. If it is denied, a ticket in the table keeps its place in the queue while the
// client retries, or waits for BC_LOCK_FREE. ABORT withdraws the ticket, and has what the owner has
// changed under AUTORECOVERY locks undone: it gets DELAY until that is done.
#include "wire/messages/locks.h"

#include <algorithm>
#include <utility>

#include "runtime/files/unique_fd.h"
#include "runtime/loop/loop.h"
#include "server/store/access/locks/fence_check.h"
#include "server/store/access/locks/reads_under_way.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/lock_procedures.h"
#include "server/store/procedures/shared/open_request.h"
#include "server/store/procedures/shared/release_recorded.h"
#include "server/store/system/errno_status.h"
#include "wire/messages/promises.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::LockRange;
using wire::LockType;

namespace {

bool Blocks(LockType type) {
  return type == LockType::kReadBlocking || type == LockType::kWriteBlocking;
}

// Fills in a conflict for LOCK or LOCKT.
template <class Res>
DafsStatus Denied(const LockTable::Conflict& conflict, Res* res) {
  res->owner_clientid = conflict.owner.client_id;
  res->owner = conflict.owner.owner;
  res->offset = conflict.range.first;
  res->length = wire::LengthOf(conflict.range);
  res->lock_type = wire::TypeOf(conflict.range);
  return DafsStatus::kDenied;
}

// One LOCK of one owner. The caller holds the file's lock.
class Locking {
 public:
  Locking(StoreParts& store, Object& file, const LockOwner& owner, const LockRange& range,
          bool writable, const LockTable::WaitMode& mode)
      : store_(store),
        table_(store.locks),
        file_(file),
        owner_(owner),
        range_(range),
        writable_(writable),
        mode_(mode) {}

  DafsStatus Run(bool blocks, wire::LockRes* res) {
    const absl::Time now = Loop::Now();
    if (range_.is_flock()) GiveUpOther();
    if (auto conflict = table_.Check(file_.key(), owner_, range_, now)) {
      if (blocks && !table_.Wait(file_.key(), owner_, range_, now, mode_)) {
        return DafsStatus::kDeadlock;
      }
      return Denied(*conflict, res);
    }
    if (!table_.MayGrant(owner_)) return DafsStatus::kResource;
    KernelLock* kernel = table_.FindKernel(file_.key(), owner_);
    if (kernel == nullptr) {
      if (!store_.descriptors.MayLock()) return DafsStatus::kResource;
      kernel = table_.SetKernel(file_.key(), owner_,
                                std::make_unique<KernelLock>(store_.descriptors.of_locks()));
    }
    const wire::LockRanges held = table_.Held(file_.key(), owner_);
    const DafsStatus status = kernel->Lock(file_, range_, held, writable_);
    if (status == DafsStatus::kOk) {
      table_.Grant(file_.key(), owner_, range_);
      return DafsStatus::kOk;
    }
    if (status == DafsStatus::kDenied) {
      // 6.5.18: reports the requested range if the conflicting one is not known.
      const auto local = TestKernelLock(kernel->ranges_fd(), range_);
      Denied({LockOwner(), local.value_or(range_)}, res);
      mode_.by_kernel = true;
      if (blocks && !table_.Wait(file_.key(), owner_, range_, now, mode_)) {
        return DafsStatus::kDeadlock;
      }
    }
    table_.DropUnused(file_.key(), owner_);
    return status;
  }

 private:
  // flock(2) releases the old lock before it takes the new one. Otherwise two owners with shared
  // locks that both want exclusive ones would wait for each other forever.
  void GiveUpOther() {
    const wire::LockRanges held = table_.Held(file_.key(), owner_);
    if (held.empty() || !held.ranges().back().is_flock() || held.ranges().back() == range_) return;
    if (KernelLock* kernel = table_.FindKernel(file_.key(), owner_)) {
      kernel->Unlock(range_.first, range_.last);
    }
    std::unique_ptr<KernelLock> unused;
    table_.Clear(file_.key(), owner_, range_.first, range_.last, &unused);
  }

  StoreParts& store_;
  LockTable& table_;
  Object& file_;
  const LockOwner& owner_;
  const LockRange range_;
  const bool writable_;
  LockTable::WaitMode mode_;
};

// Options of locks that outlive the server, in a record.
constexpr uint32_t kMandatory = wire::kLockPersist | wire::kLockAutorecovery | wire::kLockRepair;

// A lock for reading needs an open for reading, a lock for writing an open for writing (fcntl(2)).
// flock(2) needs neither, unless the lock is mandatory: a user who may only read a file must not
// keep its readers and writers out.
DafsStatus CheckAccess(const OpenRights& rights, const LockRange& range, uint32_t options) {
  const bool is_mandatory = (options & kMandatory) != 0;
  if (range.is_flock() && !(is_mandatory && range.write)) return DafsStatus::kOk;
  const uint32_t needed = range.write ? wire::kShareWrite : wire::kShareRead;
  return (rights.access & needed) != 0 ? DafsStatus::kOk : DafsStatus::kAcces;
}

// Finds the owner that `state_id` names, and the file, which may have lost its last name. Ignores
// fences.
DafsStatus FindOwner(StoreParts& store, const Caller& caller, const wire::FileHandle& filehandle,
                     const wire::StateId& state_id, OpenRights* rights, LockOwner* owner) {
  if (!store.objects.IsGenuine(filehandle)) return DafsStatus::kBadHandle;
  STORE_RETURN_IF_NOT_OK(
      store.opens.Find(caller.client_id, state_id, KeyOf(filehandle), rights, &owner->owner));
  if (rights->object == nullptr) {
    Place place;
    STORE_RETURN_IF_NOT_OK(store.handles.ResolveUnfenced(caller, filehandle, &place));
    if (place.object == nullptr) return DafsStatus::kIsDir;
    rights->object = std::move(place.object);
  }
  owner->client_id = caller.client_id;
  return rights->object->fs().exported->Admission(caller.peer);
}

// The holders of delegations may have locks that only they know: read locks, and with a write
// delegation any. The caller holds the file's lock, with which delegations are granted.
DafsStatus AwaitHidden(StoreParts& store, const Caller& caller, const Object& file,
                       const LockRange& range) {
  const bool hides = range.write && file.fs().exported->only_clients_change;
  return store.announcements.AwaitDelegations(
      caller, file.key(), hides ? Delegations::Use::kWrites : Delegations::Use::kReads);
}

// A LOCK has failed after the LockTable granted `range`. The owner holds what it held `before`.
void TakeBack(StoreParts& store, const Object& file, const LockOwner& owner, const LockRange& range,
              const wire::LockRanges& before, bool writable) {
  const ObjectKey key = file.key();
  KernelLock* const kernel = store.locks.FindKernel(key, owner);
  if (kernel == nullptr) return;
  std::unique_ptr<KernelLock> unused;  // the same, if the owner held nothing
  wire::LockRanges gained;
  gained.Set(range);
  gained = Minus(std::move(gained), before);
  for (const LockRange& part : gained.ranges()) {
    kernel->Unlock(part.first, part.last);
    store.locks.Clear(key, owner, part.first, part.last, &unused);
  }
  for (const LockRange& held : before.ranges()) {
    if (!held.Overlaps(range) || held.write == range.write) continue;
    const LockRange part{std::max(held.first, range.first), std::min(held.last, range.last),
                         held.write};
    if (kernel->Lock(file, part, store.locks.Held(key, owner), writable) == DafsStatus::kOk) {
      store.locks.Grant(key, owner, part);
    }
  }
}

// Records `range`, which the LockTable has granted, if it must be.
DafsStatus Record(StoreParts& store, const Caller& caller, const wire::LockArgs& args,
                  const ObjectRef& file, const LockOwner& owner, const LockRange& range) {
  const ObjectKey key = file->key();
  uint8_t kind = 0;
  if ((args.options & wire::kLockPersist) != 0) kind |= PersistentLocks::kPersists;
  if ((args.options & wire::kLockAutorecovery) != 0) kind |= PersistentLocks::kRecovers;
  const bool repair = (args.options & wire::kLockRepair) != 0;
  DafsStatus status = DafsStatus::kOk;
  // Others may read now what was changed, so it is not undone any more.
  const uint8_t before = store.persistent_locks.KindOf(caller.client_id, key, owner.owner, range);
  if (!range.write && (before & PersistentLocks::kRecovers) != 0) {
    kind |= before & PersistentLocks::kPersists;
    status = ReleaseRecorded(store, caller.client_id, file, key, owner.owner,
                             {range.first, range.last, /*write=*/true});
  }
  if (status != DafsStatus::kOk) return status;
  return store.persistent_locks.Granted(caller, key, owner.owner, range, kind, repair);
}

// ABORT of what `owner` waits for, or has changed in `range` under AUTORECOVERY locks. DELAY: that
// is being undone; the client asks again. The caller holds the file's lock.
DafsStatus AbortLock(StoreParts& store, const ObjectKey& key, const LockOwner& owner,
                     LockRange range) {
  store.locks.StopWaiting(key, owner, range);
  range.write = true;
  if (store.persistent_locks.IsUndoing(key, range)) return DafsStatus::kDelay;
  const auto recovering = store.persistent_locks.RecoveringOf(owner.client_id, key, owner.owner);
  if (!recovering) return DafsStatus::kOk;
  wire::LockRanges aborted;
  aborted.Set(range);
  const wire::LockRanges bytes = FileBytes(Common(recovering->ranges, aborted));
  if (!store.undo_log.HasSaved(key, recovering->holder, bytes)) return DafsStatus::kOk;
  store.persistent_locks.Abort(owner.client_id, key, owner.owner, range);
  return DafsStatus::kDelay;
}

// One LOCK. LockProcedures::Lock adds the grace period and expired leases.
DafsStatus LockFile(StoreParts& store, const Caller& caller, const wire::LockArgs& args,
                    wire::LockRes* res) {
  *res = {};
  OpenRights rights;
  LockOwner owner;
  const bool reclaim = (args.options & wire::kLockReclaim) != 0;
  bool is_owed = false;
  const LockTable::WaitMode mode{.awaits = (args.options & wire::kLockAwaits) != 0,
                                 .of_process = (args.options & wire::kLockOfProcess) != 0};
  const LockNoticesAtExit sending(store.lock_notices);
  absl::MutexLock lock(&store.object_locks.FileLock(KeyOf(args.filehandle)));
  STORE_RETURN_IF_NOT_OK(CheckFence(store.fencing, caller, KeyOf(args.filehandle)));
  STORE_RETURN_IF_NOT_OK(FindOwner(store, caller, args.filehandle, args.state_id, &rights, &owner));
  if (rights.is_delegation) return DafsStatus::kBadStateId;
  const LockRange range = wire::LockRangeOf(args.offset, args.length, args.lock_type);
  if (reclaim) {
    // A lock may be reclaimed more than once, as an open may, and counts once.
    if (rights.reclaimed && store.locks.Held(rights.object->key(), owner).Covers(range)) {
      return DafsStatus::kOk;
    }
    // A PERSIST lock that is not broken may be reclaimed at any time (4.4.1.6).
    const DafsStatus may = store.grace.MayReclaimLock(caller, KeyOf(args.filehandle));
    is_owed = may == DafsStatus::kOk;
    if (!is_owed &&
        !store.persistent_locks.MayReclaim(caller, rights.object->key(), owner.owner, range)) {
      return may;
    }
  }
  if (args.lock_type == LockType::kAbort) {
    return AbortLock(store, rights.object->key(), owner, range);
  }
  // 6.5.18: an option that is not supported. Nothing is changed under a lock for reading.
  if ((args.options & wire::kLockAutorecovery) != 0 &&
      (!range.write || !store.undo_log.Offers(rights.object->fs()))) {
    return DafsStatus::kNotSupp;
  }
  STORE_RETURN_IF_NOT_OK(CheckAccess(rights, range, args.options));
  STORE_RETURN_IF_NOT_OK(AwaitHidden(store, caller, *rights.object, range));
  const bool writable = (rights.access & wire::kShareWrite) != 0;
  const ObjectKey key = rights.object->key();
  LockTable::Conflict broken;
  const DafsStatus admitted = store.persistent_locks.Admit(
      caller, key, owner.owner, range, (args.options & wire::kLockRepair) != 0, &broken);
  if (admitted == DafsStatus::kLockBroken) Denied(broken, res);
  STORE_RETURN_IF_NOT_OK(admitted);
  const LockCount count(store.locks, key, owner, caller.holdings);
  const wire::LockRanges before = store.locks.Held(key, owner);
  Locking locking(store, *rights.object, owner, range, writable, mode);
  STORE_RETURN_IF_NOT_OK(locking.Run(Blocks(args.lock_type), res));
  if (const DafsStatus recorded = Record(store, caller, args, rights.object, owner, range);
      recorded != DafsStatus::kOk) {
    TakeBack(store, *rights.object, owner, range, before, writable);
    return recorded;
  }
  if (reclaim) {
    if (is_owed) store.grace.ReclaimedLock(caller);
  } else {
    store.grace.Granted(key);
  }
  return DafsStatus::kOk;
}

// One LOCKT. LockProcedures::Lockt adds expired leases.
DafsStatus TestFile(StoreParts& store, const Caller& caller, const wire::LocktArgs& args,
                    Object& file, wire::LocktRes* res) {
  *res = {};
  const LockOwner owner{caller.client_id, args.owner};
  const LockRange range = wire::LockRangeOf(args.offset, args.length, args.lock_type);
  absl::MutexLock lock(&store.object_locks.FileLock(file.key()));
  STORE_RETURN_IF_NOT_OK(AwaitHidden(store, caller, file, range));
  LockTable::Conflict kept;
  const DafsStatus of_failed =
      store.persistent_locks.Test(caller, file.key(), args.owner, range, &kept);
  if (of_failed != DafsStatus::kOk) {
    Denied(kept, res);
    return of_failed;
  }
  if (auto conflict = store.locks.CheckHeld(file.key(), owner, range)) {
    return Denied(*conflict, res);
  }
  if (range.is_flock()) return DafsStatus::kOk;  // the kernel cannot test these
  // The kernel also holds the owner's own locks. Tested through the owner's own open file
  // description, they do not conflict.
  const KernelLock* kernel = store.locks.FindKernel(file.key(), owner);
  int fd = kernel != nullptr ? kernel->ranges_fd() : -1;
  std::shared_ptr<const UniqueFd> any;
  if (fd < 0) {
    int error = 0;
    any = file.DataFd(false, &error);
    if (any == nullptr) return StatusFromErrno(error);
    fd = any->get();
  }
  const std::optional<LockRange> local = TestKernelLock(fd, range);
  return local ? Denied(LockTable::Conflict{LockOwner(), *local}, res) : DafsStatus::kOk;
}

}  // namespace

DafsStatus LockProcedures::Lock(const Caller& caller, const wire::LockArgs& args,
                                wire::LockRes* res) {
  const uint32_t options = args.options & wire::kLockOptionsAll;
  const bool reclaim = (options & wire::kLockReclaim) != 0;
  const bool repair = (options & wire::kLockRepair) != 0;
  const bool recovers = (options & wire::kLockAutorecovery) != 0;
  if (repair && (reclaim || recovers)) return DafsStatus::kInval;
  if (!reclaim && store_.grace.active()) {
    // CheckLock counts this as a new request, after which the client has nothing to reclaim. A
    // client with a state id from before the restart has yet to reclaim, so the state id is checked
    // first.
    OpenRights rights;
    if (!store_.objects.IsGenuine(args.filehandle)) return DafsStatus::kBadHandle;
    STORE_RETURN_IF_NOT_OK(
        store_.opens.Find(caller.client_id, args.state_id, KeyOf(args.filehandle), &rights));
    STORE_RETURN_IF_NOT_OK(store_.grace.CheckLock(caller, KeyOf(args.filehandle)));
  }
  DafsStatus status = DafsStatus::kOk;
  do {
    status = LockFile(store_, caller, args, res);
  } while ((status == DafsStatus::kDenied || status == DafsStatus::kDeadlock) &&
           store_.releases.RevokeExpired(KeyOf(args.filehandle)));
  const ObjectKey key = KeyOf(args.filehandle);
  if (status == DafsStatus::kOk && store_.persistent_locks.MayConcern(key)) {
    // 4.4.1.2: not answered while I/O is under way that it forbids. Later I/O sees it.
    { absl::MutexLock writers(&store_.object_locks.AppendLock(key)); }
    if (wire::LockRangeOf(args.offset, args.length, args.lock_type).write) ReadUnderWay::Await(key);
    store_.exported.Drop(key);  // reads by reference look for no lock
  }
  return status;
}

bool LockProcedures::LockMayWait(const wire::LockArgs& args) const {
  return (args.options & kMandatory) != 0 || ReleaseMayWait(args.filehandle);
}

bool LockProcedures::ReleaseMayWait(const wire::FileHandle& filehandle) const {
  return store_.persistent_locks.MayConcern(KeyOf(filehandle));
}

DafsStatus LockProcedures::Lockt(const Caller& caller, const wire::LocktArgs& args,
                                 wire::LocktRes* res) {
  ObjectRef file;
  STORE_RETURN_IF_NOT_OK(
      store_.handles.ResolveObject(caller, args.filehandle, DafsStatus::kIsDir, &file));
  if (file->is_dir()) return DafsStatus::kIsDir;
  if (!file->is_regular()) return DafsStatus::kInval;
  DafsStatus status = DafsStatus::kOk;
  do {
    status = TestFile(store_, caller, args, *file, res);
  } while (status == DafsStatus::kDenied && store_.releases.RevokeExpired(file->key()));
  return status;
}

DafsStatus LockProcedures::Locku(const Caller& caller, const wire::LockuArgs& args) {
  OpenRights rights;
  LockOwner owner;
  std::unique_ptr<KernelLock> unused;
  const LockNoticesAtExit sending(store_.lock_notices);
  absl::MutexLock lock(&store_.object_locks.FileLock(KeyOf(args.filehandle)));
  STORE_RETURN_IF_NOT_OK(
      FindOwner(store_, caller, args.filehandle, args.state_id, &rights, &owner));
  const LockRange range = wire::LockRangeOf(args.offset, args.length, args.lock_type);
  const ObjectKey key = rights.object->key();
  STORE_RETURN_IF_NOT_OK(ReleaseRecorded(store_, caller.client_id, rights.object, key, owner.owner,
                                         {range.first, range.last, /*write=*/true}));
  const LockCount count(store_.locks, key, owner, caller.holdings);
  if (KernelLock* kernel = store_.locks.FindKernel(key, owner)) {
    kernel->Unlock(range.first, range.last);
  }
  store_.locks.Clear(key, owner, range.first, range.last, &unused);
  return DafsStatus::kOk;
}

DafsStatus LockProcedures::OpenOwner(const Caller& caller, const wire::OpenOwnerArgs& args,
                                     wire::OpenOwnerRes* res) {
  OpenRights rights;
  LockOwner owner;
  absl::MutexLock lock(&store_.object_locks.FileLock(KeyOf(args.filehandle)));
  STORE_RETURN_IF_NOT_OK(CheckFence(store_.fencing, caller, KeyOf(args.filehandle)));
  STORE_RETURN_IF_NOT_OK(
      FindOwner(store_, caller, args.filehandle, args.state_id, &rights, &owner));
  if ((rights.access & wire::kShareWrite) != 0) {
    STORE_RETURN_IF_NOT_OK(store_.announcements.Announce(
        caller, {AnnouncedChange::OfAttributes(KeyOf(args.filehandle))}));
  }
  const DafsStatus status =
      store_.opens.Open(RequestOf(caller, args.owner, rights.access), rights.object,
                        store_.descriptors.MayPin(), &res->state_id);
  // A reload may not have found the open.
  if (status != DafsStatus::kOk || !rights.object->fs().retired.load()) return status;
  store_.releases.CloseLocked(caller.client_id, res->state_id, KeyOf(args.filehandle));
  return DafsStatus::kAcces;
}

}  // namespace dafs::server
