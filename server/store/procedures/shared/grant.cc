#include "server/store/procedures/shared/grant.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/loop/loop.h"
#include "server/store/access/locks/fence_check.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;
using Type = Delegations::Type;

namespace {

// ACE4_READ_DATA, and ACE4_WRITE_DATA with ACE4_APPEND_DATA.
constexpr uint32_t kMayRead = 1;
constexpr uint32_t kMayWrite = 2 | 4;

// The holder may extend the file to this size without asking: it may use an eighth of what is free.
uint64_t SpaceLimit(const Object& file) {
  struct statx stx;
  struct statvfs space;
  if (Statx(file.path_fd(), &stx) != 0 || fstatvfs(file.path_fd(), &space) != 0) return 0;
  return stx.stx_size + uint64_t{space.f_bavail} * space.f_frsize / 8;
}

void FillIn(StoreParts& store, const Caller& caller, const Object& file,
            const Delegation& delegation, wire::OpenDelegation* res) {
  OpenRights rights;
  store.opens.Find(caller.client_id, delegation.state_id, delegation.key, &rights);
  res->delegation_type = delegation.type;
  res->delegation_state_id = delegation.state_id;
  if (delegation.type == Type::kWrite) res->filesize = SpaceLimit(file);
  res->permissions_acetype = wire::kAceAllowed;
  if ((rights.access & wire::kShareRead) != 0) res->permissions_acemask |= kMayRead;
  if ((rights.access & wire::kShareWrite) != 0) res->permissions_acemask |= kMayWrite;
  res->delegation_who = absl::StrCat(caller.uid);
}

// The access that a write delegation permits: that of the open, and what else the identity entered
// may do.
uint32_t AccessToWrite(const Grant& grant) {
  const auto may = [&](uint32_t access, int mode) {
    return (grant.access & access) != 0 ||
           faccessat(grant.file->path_fd(), "", mode, AT_EMPTY_PATH | AT_EACCESS) == 0;
  };
  return (may(wire::kShareRead, R_OK) ? wire::kShareRead : 0) |
         (may(wire::kShareWrite, W_OK) ? wire::kShareWrite : 0);
}

// Makes the open of a delegation, which is not in the table of delegations yet. The caller holds
// the file's lock. Returns false if the client has as many opens as it may.
bool OpenDelegation(StoreParts& store, const Caller& caller, const Grant& grant, Type type,
                    Delegation* delegation) {
  const bool writes = type == Type::kWrite;
  OpenRequest request =
      RequestOf(caller, "", writes ? AccessToWrite(grant) : grant.access & wire::kShareRead);
  request.is_delegation = true;
  *delegation = {caller.client_id, {}, grant.file->key(), type};
  if (caller.fence != nullptr) delegation->fence_id = caller.fence->id();
  return store.opens.Open(request, grant.file, store.descriptors.MayPinForDelegation(),
                          &delegation->state_id) == DafsStatus::kOk;
}

bool OnlyClientsChange(const Object& file) { return file.fs().exported->only_clients_change; }

// The most that may be granted of `file`. A lease of the kernel protects only read delegations from
// local programs, and does not see changes in the layers of an overlay.
Type MostOf(StoreParts& store, const Object& file) {
  if (store.mounts->ExportThatMayHang(file.key().fshandle()).has_value()) return Type::kNone;
  if (OnlyClientsChange(file)) return Type::kWrite;
  return file.fs().layered ? Type::kNone : Type::kRead;
}

// Makes local programs wait until the delegation has ended before they change the file. Returns
// false if that is not possible. The caller holds the file's lock.
bool Protect(StoreParts& store, Object& file) {
  if (OnlyClientsChange(file)) return true;
  if (!store.descriptors.MayPinForDelegation()) return false;
  file.DropWriteFd();  // left by an open that failed; the kernel would grant no lease
  int error = 0;
  std::shared_ptr<const UniqueFd> fd = file.DataFd(/*write=*/false, &error);
  return fd != nullptr && store.leases.Take(file.key(), std::move(fd));
}

// Whether `caller` can be granted delegations of this file, as far as its opens do not matter.
bool MayGrant(StoreParts& store, const Caller& caller, const Grant& grant) {
  return grant.most != Type::kNone && caller.promisee != 0 &&
         store.options.delegations.most != Type::kNone &&
         store.admitted_clients.IsAdmitted(caller.client_id) &&
         !store.promises.IsVoid(caller.promisee) && !store.grace.active() &&
         grant.file->is_regular() && MostOf(store, *grant.file) != Type::kNone;
}

// The type that an open for this access may get; kNone if the file is shared, or if that is more
// than the client wants.
Type TypeFor(StoreParts& store, const Caller& caller, const Grant& grant) {
  const OpenTable::Sharing sharing = store.opens.SharingOf(grant.file->key(), caller.client_id);
  const bool writes = (grant.access & wire::kShareWrite) != 0;
  const Type type = writes ? Type::kWrite : Type::kRead;
  // Its holder may take read locks without asking.
  const bool is_locked = store.locks.IsWriteLocked(grant.file->key(), caller.client_id);
  const bool is_shared =
      sharing.is_denied || is_locked || (writes ? sharing.is_shared : sharing.is_written);
  const Type most = std::min(grant.most, MostOf(store, *grant.file));
  return type > most || is_shared ? Type::kNone : type;
}

// Adds the delegation that `caller` may get. Returns whether there is one. The caller holds the
// file's lock.
bool AddChosen(StoreParts& store, const Caller& caller, const Grant& grant,
               Delegation* delegation) {
  const Type type = TypeFor(store, caller, grant);
  if (!store.delegations.MayAdd(grant.file->key(), caller.client_id, type, Loop::Now()) ||
      !OpenDelegation(store, caller, grant, type, delegation)) {
    return false;
  }
  if (store.delegations.TryAdd(*delegation)) return true;
  store.releases.CloseLocked(caller.client_id, delegation->state_id, delegation->key);
  return false;
}

// Makes the client's read delegation one for writing, if it has one and the file is not shared.
bool Upgrade(StoreParts& store, const Caller& caller, const Grant& grant, Opened* opened) {
  if (TypeFor(store, caller, grant) != Type::kWrite) return false;
  opened->delegation = store.delegations.Upgrade(grant.file->key(), caller.client_id, Loop::Now());
  if (!opened->delegation.has_value()) return false;
  store.opens.ExtendDelegation(opened->delegation->state_id, AccessToWrite(grant));
  opened->is_upgraded = true;
  return true;
}

// Whether the delegation that was added may stay. The caller holds the file's lock.
// A change that does not hold it has marked the file before it looked for delegations and for a
// lease. If it has not seen what was added, this sees the mark. So does a change of a fencing list.
bool MayStay(StoreParts& store, const Caller& caller, const Grant& grant) {
  return Protect(store, *grant.file) && !grant.file->fs().retired.load() &&
         CheckFence(store.fencing, caller, grant.file->key()) == DafsStatus::kOk &&
         !store.promises.IsBeingChanged(grant.file->key(), caller.changing);
}

// Grants a delegation beside the open.
void GrantBeside(StoreParts& store, const Caller& caller, const Grant& grant,
                 wire::OpenDelegation* res) {
  if (!MayGrant(store, caller, grant)) return;
  Delegation delegation;
  {
    absl::MutexLock lock(&store.object_locks.FileLock(grant.file->key()));
    if (!AddChosen(store, caller, grant, &delegation)) return;
    if (!MayStay(store, caller, grant)) {
      store.releases.CloseLocked(caller.client_id, delegation.state_id, delegation.key);
      return;
    }
  }
  FillIn(store, caller, *grant.file, delegation, res);
}

// Another OPEN of the client may make it a write delegation, under the file's lock.
void EndReadDelegation(StoreParts& store, const Caller& caller, const ObjectKey& key) {
  absl::MutexLock lock(&store.object_locks.FileLock(key));
  const auto held = store.delegations.Find(key, caller.client_id);
  if (held.has_value() && held->type == Type::kRead) {
    store.releases.CloseLocked(caller.client_id, held->state_id, key);
  }
}

}  // namespace

DafsStatus OpenOrDelegate(StoreParts& store, const Caller& caller, const Grant& grant,
                          const OpenRequest& request, Opened* opened) {
  Delegation added;
  bool is_added = false;
  if (MayGrant(store, caller, grant)) {
    if (Upgrade(store, caller, grant, opened)) return DafsStatus::kOk;
    is_added = AddChosen(store, caller, grant, &added);
    if (is_added && MayStay(store, caller, grant)) {
      opened->delegation = added;
      return DafsStatus::kOk;
    }
  }
  const DafsStatus status = store.opens.Open(request, grant.file, store.descriptors.MayPin(),
                                             &opened->state_id, &opened->before);
  // After the open, so that the file does not count as closed between the two.
  if (is_added) store.releases.CloseLocked(caller.client_id, added.state_id, added.key);
  return status;
}

void TakeBackDelegation(StoreParts& store, const Opened& opened) {
  const Delegation& delegation = *opened.delegation;
  if (opened.is_upgraded) {
    DowngradeDelegation(store, delegation);
  } else {
    store.releases.CloseOpen(delegation.client_id, delegation.state_id, delegation.key);
  }
}

void GrantDelegation(StoreParts& store, const Caller& caller, const Grant& grant,
                     const Opened& opened, wire::OpenDelegation* res) {
  if (opened.delegation.has_value()) {
    FillIn(store, caller, *grant.file, *opened.delegation, res);
  } else if (!grant.instead) {
    GrantBeside(store, caller, grant, res);
  } else if ((grant.access & wire::kShareWrite) != 0) {
    EndReadDelegation(store, caller, grant.file->key());
  }
}

bool DowngradeDelegation(StoreParts& store, const Delegation& delegation) {
  ObjectRef drop_write;
  {
    absl::MutexLock lock(&store.object_locks.FileLock(delegation.key));
    OpenRights rights;
    if (store.opens.Find(delegation.client_id, delegation.state_id, delegation.key, &rights) !=
            DafsStatus::kOk ||
        (rights.access & wire::kShareRead) == 0 ||
        !store.delegations.Downgrade(delegation.state_id)) {
      return false;
    }
    store.opens.Downgrade(delegation.client_id, delegation.state_id, delegation.key,
                          wire::kShareRead, wire::kShareDenyNone, std::nullopt, &drop_write);
  }
  if (drop_write != nullptr) drop_write->DropWriteFd();
  return true;
}

void GrantClaimed(StoreParts& store, const Caller& caller, const Grant& grant,
                  wire::OpenDelegation* res) {
  if (grant.most == Type::kNone) return;
  store.admitted_clients.Admit(caller.client_id, caller.client_name);
  if (!store.delegations.may_recall()) return;
  const ObjectKey& key = grant.file->key();
  bool conflicts = false;
  std::optional<Delegation> delegation;
  {
    absl::MutexLock lock(&store.object_locks.FileLock(key));
    delegation = store.delegations.Find(key, caller.client_id);  // of a claim before
    if (!delegation.has_value()) {
      if (!OpenDelegation(store, caller, grant, grant.most, &delegation.emplace())) return;
      store.delegations.Add(*delegation);
    } else if (delegation->type == Type::kWrite) {
      store.opens.ExtendDelegation(delegation->state_id, grant.access);
    }
    const OpenTable::Sharing sharing = store.opens.SharingOf(key, caller.client_id);
    const bool writes = delegation->type == Type::kWrite;
    conflicts = sharing.is_denied || (writes ? sharing.is_shared : sharing.is_written) ||
                delegation->type > store.options.delegations.most ||
                MostOf(store, *grant.file) != Type::kWrite ||
                store.locks.IsWriteLocked(key, caller.client_id) ||
                grant.file->fs().retired.load() ||
                CheckFence(store.fencing, caller, key) != DafsStatus::kOk ||
                store.delegations.HasConflict(key, caller.client_id, delegation->type);
  }
  FillIn(store, caller, *grant.file, *delegation, res);
  res->recall = conflicts;
  if (conflicts) store.delegations.BeginRecall(delegation->state_id);
}

}  // namespace dafs::server
