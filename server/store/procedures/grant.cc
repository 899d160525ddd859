#include "server/store/procedures/grant.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "absl/strings/str_cat.h"
#include "runtime/loop.h"
#include "server/store/attributes/attributes.h"
#include "server/store/procedures/open_object.h"
#include "server/store/system/fd_path.h"

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

void FillIn(const Caller& caller, const Object& file, const Delegations::Delegation& delegation,
            wire::OpenDelegation* res) {
  const bool writes = delegation.type == Type::kWrite;
  res->delegation_type = delegation.type;
  res->delegation_state_id = delegation.state_id;
  if (writes) res->filesize = SpaceLimit(file);
  res->permissions_acetype = wire::kAceAllowed;
  res->permissions_acemask = writes ? kMayRead | kMayWrite : kMayRead;
  res->delegation_who = absl::StrCat(caller.uid);
}

// Records a delegation. The caller holds the file's lock. Returns false if the client has as many
// opens as it may.
bool Add(StoreImpl& store, const Caller& caller, const Grant& grant, Type type,
         Delegations::Delegation* delegation) {
  const bool writes = type == Type::kWrite;
  OpenRequest request = RequestOf(
      caller, "", writes ? grant.access : grant.access & wire::kShareRead, wire::kShareDenyNone);
  request.is_delegation = true;
  *delegation = {caller.client_id, {}, grant.file->key(), type};
  if (store.opens.Open(request, grant.file, store.MayPin(), &delegation->state_id) !=
      DafsStatus::kOk) {
    return false;
  }
  store.delegations.Add(*delegation);
  return true;
}

// Whether the data of the file changes only through this server, or after a recall.
bool IsProtected(const Object& file) { return file.fs().exported->only_clients_change; }

// Whether files of this export may be delegated.
bool IsDelegable(StoreImpl& store, const Object& file) {
  return IsProtected(file) && !store.mounts->ExportThatMayHang(file.key().fshandle()).has_value();
}

// Adds the delegation that `caller` may get. Returns whether there is one.
bool AddChosen(StoreImpl& store, const Caller& caller, const Grant& grant,
               Delegations::Delegation* delegation) {
  const ObjectKey& key = grant.file->key();
  absl::MutexLock lock(&store.FileLock(key));
  const OpenTable::Sharing sharing = store.opens.SharingOf(key, caller.client_id);
  const bool writes = (grant.access & wire::kShareWrite) != 0;
  const Type type = writes ? Type::kWrite : Type::kRead;
  if (type > grant.most || sharing.is_denied || (writes ? sharing.is_shared : sharing.is_written)) {
    return false;
  }
  return store.delegations.Choose(key, caller.client_id, type, Loop::Now()) == type &&
         Add(store, caller, grant, type, delegation);
}

}  // namespace

void GrantDelegation(StoreImpl& store, const Caller& caller, const Grant& grant,
                     wire::OpenDelegation* res) {
  if (grant.most == Type::kNone || caller.promisee == 0 ||
      !store.delegations.IsAdmitted(caller.client_id) || store.promises.IsVoid(caller.promisee) ||
      store.grace.active() || !grant.file->is_regular() || !IsDelegable(store, *grant.file)) {
    return;
  }
  Delegations::Delegation delegation;
  if (!AddChosen(store, caller, grant, &delegation)) return;
  // A change that does not hold the file's lock has marked the file before it looked for
  // delegations. If it has not seen this one, this sees the mark.
  if (store.promises.IsBeingChanged(delegation.key, caller.changing)) {
    store.CloseOpen(caller.client_id, delegation.state_id, delegation.key);
    return;
  }
  FillIn(caller, *grant.file, delegation, res);
}

void GrantClaimed(StoreImpl& store, const Caller& caller, const Grant& grant,
                  wire::OpenDelegation* res) {
  if (grant.most == Type::kNone) return;
  store.delegations.Admit(caller.client_id, caller.client_name);
  if (!store.delegations.may_recall()) return;
  const ObjectKey& key = grant.file->key();
  bool conflicts = false;
  std::optional<Delegations::Delegation> delegation;
  {
    absl::MutexLock lock(&store.FileLock(key));
    delegation = store.delegations.Find(key, caller.client_id);  // of a claim before
    if (!delegation.has_value() && !Add(store, caller, grant, grant.most, &delegation.emplace())) {
      return;
    }
    const OpenTable::Sharing sharing = store.opens.SharingOf(key, caller.client_id);
    const bool writes = delegation->type == Type::kWrite;
    conflicts = sharing.is_denied || (writes ? sharing.is_shared : sharing.is_written) ||
                delegation->type > store.delegations.options().most ||
                !IsDelegable(store, *grant.file) ||
                store.delegations.HasConflict(key, caller.client_id, delegation->type);
  }
  FillIn(caller, *grant.file, *delegation, res);
  res->recall = conflicts;
  if (conflicts) store.delegations.BeginRecall(delegation->state_id);
}

}  // namespace dafs::server
