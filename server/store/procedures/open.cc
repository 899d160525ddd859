// OPEN, OPEN_HANDLE, OPEN_DELEGATED, OPEN_EXECUTE, OPEN_DOWNGRADE.
// Spec: 6.5.24, 6.5.26, 4.4.1.2, 4.4.2; WIRE 9.4 OPEN, 9.5.
#include <sys/stat.h>

#include <utility>

#include "runtime/loop/loop.h"
#include "server/store/access/act_as.h"
#include "server/store/attributes/attributes.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/open_procedures.h"
#include "server/store/procedures/shared/creation.h"
#include "server/store/procedures/shared/grant.h"
#include "server/store/procedures/shared/open_object.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/statx.h"
#include "wire/messages/open_close.h"
#include "wire/messages/posix.h"
#include "wire/rules/share_rules.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

DafsStatus CheckOpen(const wire::OpenArgs& args) {
  const bool may_wish = args.claim_type == wire::OpenClaimType::kNull ||
                        args.claim_type == wire::OpenClaimType::kCreateUnlinked;
  STORE_RETURN_IF_NOT_OK(may_wish ? wire::CheckShareOrWish(args.share_access, args.share_deny)
                                  : wire::CheckShare(args.share_access, args.share_deny));
  const bool create = args.open_type == wire::OpenType::kCreate;
  switch (args.claim_type) {
    case wire::OpenClaimType::kNull:
      if (args.pathname.empty()) return DafsStatus::kInval;
      break;
    case wire::OpenClaimType::kPrevious:
      if (create) return DafsStatus::kInval;
      break;
    case wire::OpenClaimType::kCreateUnlinked:
      if (!create || args.createmode == wire::CreateMode::kExclusive) return DafsStatus::kInval;
      break;
    case wire::OpenClaimType::kDelegateCur:
    case wire::OpenClaimType::kDelegatePrev:
      if (create || args.pathname.empty()) return DafsStatus::kInval;
      break;
    default:
      return DafsStatus::kInval;
  }
  return create && args.createmode != wire::CreateMode::kExclusive ? CheckSettable(args.createattrs)
                                                                   : DafsStatus::kOk;
}

// CLAIM_DELEGATE_CUR: opens under a delegation of the client, which may be recalled at present.
DafsStatus OpenCurrent(StoreParts& store, const Caller& caller, const wire::OpenArgs& args,
                       const ObjectRef& file, Opened* opened) {
  OpenRights rights;
  STORE_RETURN_IF_NOT_OK(
      store.opens.Find(caller.client_id, args.claimdelcur_stateid, file->key(), &rights));
  const auto delegation = store.delegations.Find(file->key(), caller.client_id);
  if (!rights.is_delegation || !delegation.has_value()) return DafsStatus::kBadStateId;
  const bool writes = (args.share_access & wire::kShareWrite) != 0;
  if (writes && delegation->type != Delegations::Type::kWrite) return DafsStatus::kAcces;
  return OpenObject(store, caller, file, RequestOf(caller, args), Made::kDelegated, opened);
}

// CLAIM_DELEGATE_PREV: the client has started again, and claims its earlier delegation.
DafsStatus OpenPrevious(StoreParts& store, const Caller& caller, const wire::OpenArgs& args,
                        const ObjectRef& file, Opened* opened, wire::OpenRes* res) {
  if (!store.delegation_claims.MayClaim(file->key(), caller.client_id, Loop::Now())) {
    return DafsStatus::kExpired;
  }
  STORE_RETURN_IF_NOT_OK(
      OpenObject(store, caller, file, RequestOf(caller, args), Made::kDelegated, opened));
  store.delegation_claims.Claimed(file->key(), caller.client_id);
  GrantClaimed(store, caller, {file, args.share_access, Delegations::Type::kWrite}, res);
  return DafsStatus::kOk;
}

DafsStatus OpenFound(StoreParts& store, const Caller& caller, const wire::OpenArgs& args,
                     const ObjectRef& file, Opened* opened, wire::OpenRes* res) {
  switch (args.claim_type) {
    case wire::OpenClaimType::kDelegateCur:
      return OpenCurrent(store, caller, args, file, opened);
    case wire::OpenClaimType::kDelegatePrev:
      return OpenPrevious(store, caller, args, file, opened, res);
    default:
      return OpenObject(store, caller, file, RequestOf(caller, args), Made::kFound, opened,
                        InsteadOf(args));
  }
}

Grant GrantOf(const ObjectRef& file, const wire::OpenArgs& args) {
  return {file, args.share_access & wire::kShareBoth, MostFor(args),
          WantsInstead(args.share_access)};
}

// Claims with a path: opens the last component in the directory that the others lead to.
DafsStatus OpenByPath(StoreParts& store, const Caller& caller, const wire::OpenArgs& args,
                      Place place, wire::OpenRes* res) {
  const std::span<const std::string> path(args.pathname);
  DafsStatus status =
      store.lookups.Walk(caller, path.first(path.size() - 1), &place, &res->component_count);
  if (res->component_count > 0) res->filehandle = place.handle();
  if (status == DafsStatus::kSymlink) return DafsStatus::kNotDir;  // 6.5.24-27
  STORE_RETURN_IF_NOT_OK(status);
  const std::string& name = path.back();
  const bool create = args.open_type == wire::OpenType::kCreate;
  if (place.pseudo != nullptr) {
    if (create) return DafsStatus::kRofs;  // also for an existing name (4.1.4-02)
    const PseudoNode* child = nullptr;
    status = store.pseudo_tree.Find(caller, *place.pseudo, name, &child);
    return status == DafsStatus::kOk ? DafsStatus::kIsDir : status;
  }
  Object& directory = *place.object;
  if (!directory.is_dir()) return DafsStatus::kNotDir;
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *directory.fs().exported));
  ObjectRef file;
  ChangeProbe probe(directory, caller.recent);
  bool made = false;
  Opened opened;
  if (create) {
    // Checked before the creation, because the open would fail only after it.
    if (!store.opens.MayOpen(caller.client_id)) return DafsStatus::kResource;
    status =
        Creation(store, caller, args, directory, probe.before()).Run(name, &file, &opened, &made);
  } else {
    status = store.lookups.LookupLiving(directory, name, &file);
    if (status == DafsStatus::kOk) status = OpenFound(store, caller, args, file, &opened, res);
  }
  STORE_RETURN_IF_NOT_OK(status);
  res->state_id = opened.state_id;
  res->filehandle = file->handle();
  res->component_count = static_cast<uint32_t>(path.size());
  res->change_info = made ? probe.Modified() : probe.Unmodified();
  GrantDelegation(store, caller, GrantOf(file, args), opened, res);
  return DafsStatus::kOk;
}

// CLAIM_PREVIOUS. Several sessions of a client, or one that lost the reply, may claim the same
// open. It counts once, and a repeated claim never fails for being late. A delegation counted as
// one open, so of the claims of one file with a delegation only the first counts.
DafsStatus Reclaim(StoreParts& store, const Caller& caller, const ObjectRef& file,
                   const wire::OpenArgs& args, Opened* opened, wire::OpenRes* res) {
  OpenRequest request = RequestOf(caller, args);
  request.reclaims = true;
  absl::MutexLock lock(&store.object_locks.ReclaimLock(file->key()));
  const bool repeated = store.opens.IsReclaimed(request, file->key());
  if (!repeated)
    STORE_RETURN_IF_NOT_OK(store.grace.MayReclaimOpen(caller, file->key(), request.denies()));
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *file->fs().exported));
  STORE_RETURN_IF_NOT_OK(OpenObject(store, caller, file, request, Made::kReclaimed, opened));
  if (!repeated) store.grace.Reclaimed(caller, file->key(), request.owner, request.denies());
  GrantClaimed(store, caller, {file, args.share_access, args.delegate_type}, res);
  return DafsStatus::kOk;
}

}  // namespace

DafsStatus OpenProcedures::Open(const Caller& caller, const wire::OpenArgs& args,
                                wire::OpenRes* res) {
  *res = {};
  if (IsOfAttributes(args.claim_handle())) return store_.attributes.Open(caller, args, res);
  STORE_RETURN_IF_NOT_OK(CheckOpen(args));
  if (WantsInstead(args.share_access)) {
    store_.admitted_clients.Admit(caller.client_id, caller.client_name);
  }
  Place place;
  STORE_RETURN_IF_NOT_OK(store_.handles.Resolve(caller, args.claim_handle(), &place));
  if (args.claim_type != wire::OpenClaimType::kPrevious &&
      args.claim_type != wire::OpenClaimType::kCreateUnlinked) {
    return OpenByPath(store_, caller, args, std::move(place), res);
  }
  ObjectRef file;
  Opened opened;
  if (args.claim_type == wire::OpenClaimType::kCreateUnlinked) {
    if (place.pseudo != nullptr) return DafsStatus::kRofs;
    if (!place.object->is_dir()) return DafsStatus::kNotDir;
    if (place.object->fs().exported->read_only) return DafsStatus::kRofs;
    STORE_RETURN_IF_NOT_OK(ActAs(caller, *place.object->fs().exported));
    STORE_RETURN_IF_NOT_OK(
        Creation(store_, caller, args, *place.object, 0).RunUnlinked(&file, &opened));
    GrantDelegation(store_, caller, GrantOf(file, args), opened, res);
  } else {
    if (place.pseudo != nullptr) return DafsStatus::kIsDir;
    file = place.object;
    STORE_RETURN_IF_NOT_OK(Reclaim(store_, caller, file, args, &opened, res));
  }
  res->state_id = opened.state_id;
  res->filehandle = file->handle();
  return DafsStatus::kOk;
}

namespace {

// Resolves a handle that is to be opened, and enters the identity of `caller`.
DafsStatus ResolveToOpen(StoreParts& store, const Caller& caller, const wire::FileHandle& handle,
                         ObjectRef* file) {
  STORE_RETURN_IF_NOT_OK(store.handles.ResolveObject(caller, handle, DafsStatus::kIsDir, file));
  const bool promised = KeepsStats(&caller) && store.announcements.GivePromise(
                                                   caller, (*file)->key(), kPromisedAttributes);
  const uint64_t sample = (*file)->change().Sample();
  struct statx stx;
  if (int error = Statx((*file)->path_fd(), &stx); error != 0) return StatusFromErrno(error);
  STORE_RETURN_IF_NOT_OK(store.objects.CheckAlive(**file, stx.stx_nlink));
  if (KeepsStats(&caller)) caller.recent->Keep(**file, sample, stx, promised);
  return ActAs(caller, *(*file)->fs().exported);
}

}  // namespace

DafsStatus OpenProcedures::OpenHandle(const Caller& caller, const wire::OpenHandleArgs& args,
                                      wire::OpenHandleRes* res) {
  STORE_RETURN_IF_NOT_OK(wire::CheckShare(args.share_access, args.share_deny));
  ObjectRef file;
  STORE_RETURN_IF_NOT_OK(ResolveToOpen(store_, caller, args.filehandle, &file));
  const OpenRequest request = RequestOf(caller, args.owner, args.share_access, args.share_deny);
  Opened opened;
  STORE_RETURN_IF_NOT_OK(OpenObject(store_, caller, file, request, Made::kFound, &opened));
  res->state_id = opened.state_id;
  res->filehandle = file->handle();
  return DafsStatus::kOk;
}

DafsStatus OpenProcedures::OpenDelegated(const Caller& caller, const wire::OpenDelegatedArgs& args,
                                         wire::OpenDelegatedRes* res) {
  if (args.want != Delegations::Type::kNone) {
    store_.admitted_clients.Admit(caller.client_id, caller.client_name);
  }
  STORE_RETURN_IF_NOT_OK(wire::CheckShareOrWish(args.share_access, args.share_deny));
  Grant grant;
  grant.instead = WantsInstead(args.share_access);
  STORE_RETURN_IF_NOT_OK(ResolveToOpen(store_, caller, args.filehandle, &grant.file));
  const OpenRequest request = RequestOf(caller, args.owner, args.share_access, args.share_deny);
  grant.access = request.access;
  if (!request.denies()) grant.most = args.want;
  Opened opened;
  STORE_RETURN_IF_NOT_OK(OpenObject(store_, caller, grant.file, request, Made::kFound, &opened,
                                    grant.instead ? grant.most : Delegations::Type::kNone));
  res->filehandle = grant.file->handle();
  res->state_id = opened.state_id;
  GrantDelegation(store_, caller, grant, opened, res);
  return DafsStatus::kOk;
}

// A file that the caller may read is opened as by OPEN_HANDLE. So a file system mounted noexec
// affects only callers that may execute the file but not read it.
DafsStatus OpenProcedures::OpenExecute(const Caller& caller, const wire::OpenExecuteArgs& args,
                                       wire::OpenExecuteRes* res) {
  ObjectRef file;
  STORE_RETURN_IF_NOT_OK(ResolveToOpen(store_, caller, args.filehandle, &file));
  const OpenRequest request = RequestOf(caller, args.owner, wire::kShareRead);
  Opened opened;
  DafsStatus status = OpenObject(store_, caller, file, request, Made::kFound, &opened);
  if (status == DafsStatus::kAcces && MayExecute(*file)) {
    status = OpenObject(store_, caller, file, request, Made::kPermitted, &opened);
  }
  STORE_RETURN_IF_NOT_OK(status);
  res->state_id = opened.state_id;
  res->filehandle = file->handle();
  return DafsStatus::kOk;
}

DafsStatus OpenProcedures::OpenDowngrade(const Caller& caller,
                                         const wire::OpenDowngradeArgs& args) {
  if (!store_.objects.IsGenuine(args.filehandle)) return DafsStatus::kBadHandle;
  STORE_RETURN_IF_NOT_OK(wire::CheckShare(args.share_access, args.share_deny));
  OpenRights rights;
  STORE_RETURN_IF_NOT_OK(
      store_.opens.Find(caller.client_id, args.state_id, KeyOf(args.filehandle), &rights));
  if (rights.is_delegation) {
    const bool is_to_read = args.share_access == wire::kShareRead &&
                            args.share_deny == wire::kShareDenyNone &&
                            args.share_key_type == wire::ShareKeyType::kNone;
    return is_to_read && DowngradeDelegation(store_, {.client_id = caller.client_id,
                                                      .state_id = args.state_id,
                                                      .key = KeyOf(args.filehandle)})
               ? DafsStatus::kOk
               : DafsStatus::kInval;
  }
  std::optional<uint64_t> share_key;
  if (args.share_key_type == wire::ShareKeyType::kBoth) share_key = args.share_key;
  ObjectRef drop_write;
  STORE_RETURN_IF_NOT_OK(store_.opens.Downgrade(caller.client_id, args.state_id,
                                                KeyOf(args.filehandle), args.share_access,
                                                args.share_deny, share_key, &drop_write));
  if (drop_write != nullptr) drop_write->DropWriteFd();
  return DafsStatus::kOk;
}

}  // namespace dafs::server
