#include "server/store/procedures/shared/open_object.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "runtime/files/unique_fd.h"
#include "server/store/access/locks/fence_check.h"
#include "server/store/procedures/shared/data_access.h"
#include "server/store/procedures/shared/grant.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;

bool MayExecute(const Object& file) {
  return faccessat(file.path_fd(), "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

namespace {

// Whether `file` is append-only (chattr +a). faccessat(2) does not report that.
bool IsAppendOnly(const Caller& caller, const Object& file) {
  const RecentStats::Entry* known =
      caller.recent != nullptr ? caller.recent->Find(file.handle()) : nullptr;
  struct statx stx;
  if (known != nullptr) {
    stx = known->stx;
  } else if (Statx(file.path_fd(), &stx) != 0) {
    return false;
  }
  return (stx.stx_attributes & STATX_ATTR_APPEND) != 0;
}

// Checks with the kernel whether the identity entered may open `file`. Keeps a descriptor that this
// opens. An OPEN does not say that its caller only appends, so an append-only file is refused.
// Appends to such a file come without an open, and the kernel checks each of them (WIRE R64).
DafsStatus CheckRights(StoreParts& store, const Caller& caller, Object& file, uint32_t access) {
  const bool read = (access & wire::kShareRead) != 0;
  const bool write = (access & wire::kShareWrite) != 0;
  // Keeps a descriptor for reading alone, or for reading and writing, but none for writing alone,
  // nor one for writing while that would break a lease of the server.
  const bool keepable = !write || (read && !store.leases.Has(file.key()));
  if (!keepable || file.HasDataFd(write)) {
    const int mode = (read ? R_OK : 0) | (write ? W_OK : 0);
    if (faccessat(file.path_fd(), "", mode, AT_EMPTY_PATH | AT_EACCESS) != 0) {
      return StatusFromErrno();
    }
    return write && IsAppendOnly(caller, file) ? DafsStatus::kPerm : DafsStatus::kOk;
  }
  UniqueFd fd(open(FdPath(file.path_fd()).c_str(),
                   (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return StatusFromErrno();
  file.Donate(std::move(fd), write);
  return DafsStatus::kOk;
}

// Whether the export accepts the owner of `file` as a caller's identity. Then any client of the
// export could have opened the file as its owner.
bool BelievesOwner(const Object& file) {
  struct statx stx;
  const Squash squash = file.fs().exported->squash;
  return squash == Squash::kNone ||
         (squash == Squash::kRoot && Statx(file.path_fd(), &stx) == 0 && stx.stx_uid != 0);
}

// A caller that may only execute a file has it open for reading, by OPEN_EXECUTE. Also, an open
// file stays open after its permissions are revoked. So the server accepts the claim of a caller
// that may execute the file or owns it, and of any caller if the client could have opened it as the
// owner.
DafsStatus CheckReclaim(StoreParts& store, const Caller& caller, Object& file, uint32_t access) {
  const DafsStatus status = CheckRights(store, caller, file, access);
  if (status != DafsStatus::kAcces) return status;
  const bool executes = access == wire::kShareRead && MayExecute(file);
  return executes || ActsAsOwner(file) || BelievesOwner(file) ? DafsStatus::kOk : status;
}

// An open for writing ends the lease of the kernel, which protected a read delegation of the
// caller. If the caller wants the open as a delegation, the result ends that one (GrantDelegation).
void EndOwnLease(StoreParts& store, const ObjectKey& key, Delegations::Type instead) {
  if (instead == Delegations::Type::kNone) {
    store.announcements.EndLease(key);
  } else {
    store.leases.End(key);
  }
}

// A reload has removed the export while the file was opened, and may not have found the open. The
// caller holds the file's lock.
DafsStatus TakeBackIfRetired(StoreParts& store, const Caller& caller, const Object& file,
                             const Opened& opened) {
  if (!file.fs().retired.load()) return DafsStatus::kOk;
  const wire::StateId state_id =
      opened.delegation.has_value() ? opened.delegation->state_id : opened.state_id;
  store.releases.CloseLocked(caller.client_id, state_id, file.key());
  return DafsStatus::kAcces;
}

}  // namespace

DafsStatus OpenObject(StoreParts& store, const Caller& caller, const ObjectRef& file,
                      const OpenRequest& request, Made made, Opened* opened,
                      Delegations::Type instead) {
  STORE_RETURN_IF_NOT_OK(CheckFence(store.fencing, caller, file->key()));
  if (file->is_dir()) return DafsStatus::kIsDir;
  if (file->type() == S_IFLNK) return DafsStatus::kSymlink;
  if (!file->is_regular()) return DafsStatus::kInval;  // clients open devices and FIFOs themselves
  if (file->fs().exported->read_only && (request.access & wire::kShareWrite) != 0) {
    return DafsStatus::kRofs;
  }
  if (made == Made::kFound) {
    STORE_RETURN_IF_NOT_OK(CheckRights(store, caller, *file, request.access));
    if (store.grace.active()) {
      STORE_RETURN_IF_NOT_OK(store.grace.CheckOpen(caller, file->key(), request.denies()));
    }
  } else if (made == Made::kReclaimed || made == Made::kDelegated) {
    STORE_RETURN_IF_NOT_OK(CheckReclaim(store, caller, *file, request.access));
    if (caller.changing != nullptr) caller.changing->SkipReturn();
  }
  const bool writes = (request.access & wire::kShareWrite) != 0;
  if (writes && made != Made::kCreated) {
    STORE_RETURN_IF_NOT_OK(
        store.announcements.Announce(caller, {AnnouncedChange::OfAttributes(file->key())}));
  }
  DafsStatus status = DafsStatus::kOk;
  do {
    absl::MutexLock lock(&store.object_locks.FileLock(file->key()));
    const bool excludes = writes || request.denies();
    STORE_RETURN_IF_NOT_OK(store.announcements.AwaitDelegations(
        caller, file->key(), excludes ? Delegations::Use::kWrites : Delegations::Use::kReads));
    status = OpenOrDelegate(store, caller, {file, request.access, instead}, request, opened);
    if (status == DafsStatus::kOk) status = TakeBackIfRetired(store, caller, *file, *opened);
    if (writes && status == DafsStatus::kOk && !opened->delegation.has_value()) {
      EndOwnLease(store, file->key(), instead);
    }
    // For every kind of OPEN, because the grace period may end before the file's last name is
    // removed.
    Orphans& orphans = store.kept_orphans.Of(file->fs());
    if (status == DafsStatus::kOk && orphans.any_left()) {
      orphans.Adopt(*file);
      if (file->orphaned()) store.opens.Pin(file);
    }
    if (status == DafsStatus::kOk && file->orphaned()) store.open_doubts.Unnamed(file->key());
  } while ((status == DafsStatus::kDenied || status == DafsStatus::kKeyMismatch) &&
           store.releases.RevokeExpired(file->key()));
  if (made == Made::kCreated) store.announcements.AnnounceNew(caller, file->key());
  return status;
}

}  // namespace dafs::server
