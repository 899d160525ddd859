// RENAME, and the private RENAME2. Spec: 6.5.34; wire/messages/posix.h.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>

#include "server/store/procedures/removal.h"
#include "server/store/store_impl.h"
#include "server/store/system/errno_status.h"
#include "wire/messages/namespace.h"
#include "wire/messages/posix.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Marks the object of `key` as changed, if it is cached.
void NoteChange(StoreImpl& store, const ObjectKey& key) {
  if (ObjectRef object = store.cache.Find(key); object != nullptr) object->change().Modified();
}

// RENAME and RENAME2. Without flags, replaces the object of the new name. A target whose type does
// not match the source fails with EXIST (6.5.34-03).
DafsStatus RenameName(StoreImpl& store, const Caller& caller, const wire::Rename2Args& args,
                      wire::ChangeInfo* source_info, wire::ChangeInfo* target_info) {
  STORE_RETURN_IF_NOT_OK(CheckName(args.oldname));
  STORE_RETURN_IF_NOT_OK(CheckName(args.newname));
  ObjectRef source, target;
  STORE_RETURN_IF_NOT_OK(store.ResolveTargetDir(caller, args.sourcedir, &source));
  STORE_RETURN_IF_NOT_OK(store.ResolveTargetDir(caller, args.targetdir, &target));
  // Between subvolumes of a mount the kernel decides: it moves a subvolume, but no other object.
  if (&source->fs().mount() != &target->fs().mount()) return DafsStatus::kXdev;
  STORE_RETURN_IF_NOT_OK(store.Enter(caller, *source->fs().exported));
  STORE_RETURN_IF_NOT_OK(store.CheckNotReserved(*source, args.oldname));
  STORE_RETURN_IF_NOT_OK(store.CheckNotReserved(*target, args.newname));
  const NameGuard guard = store.GuardNames(*source, args.oldname, *target, args.newname);
  ObjectKey moved, other;
  STORE_RETURN_IF_NOT_OK(KeyOfName(store, *source, args.oldname, &moved));
  const DafsStatus existing = KeyOfName(store, *target, args.newname, &other);
  // Two names of one object: the kernel does nothing (6.5.34-04), so nothing is replaced.
  const bool replaces = args.flags == 0 && existing == DafsStatus::kOk && other != moved;
  if (replaces) RevokeForRemoval(store, other, /*check_open=*/false);

  absl::MutexLock lock(&store.FileLock(replaces ? other : moved));
  Removal removal(store, caller, other);
  if (replaces) {
    const DafsStatus status = removal.Prepare(/*check_open=*/false);
    // RENAME has no DENYDISP_CONFLICT. A target that must not be removed must not be replaced.
    if (status == DafsStatus::kDenyDispConflict) return DafsStatus::kAcces;
    STORE_RETURN_IF_NOT_OK(status);
  }
  ChangeProbe source_probe(*source, caller.recent);
  std::optional<ChangeProbe> target_probe;  // set if it is another directory
  if (target != source) target_probe.emplace(*target, caller.recent);
  if (Operation* operation = caller.operation) {
    Intent& intent = operation->Prepare();
    intent.directory = source->handle();
    intent.new_directory = target->handle();
    intent.object = HandleOf(store, moved);
    intent.before = source_probe.before();
    intent.new_before = target_probe.has_value() ? target_probe->before() : intent.before;
    Intent::SetName(intent.name, args.oldname);
    Intent::SetName(intent.new_name, args.newname);
    operation->Begin();
  }
  static_assert(wire::kRenameNoReplace == RENAME_NOREPLACE &&
                wire::kRenameExchange == RENAME_EXCHANGE);
  const int result = renameat2(source->path_fd(), args.oldname.c_str(), target->path_fd(),
                               args.newname.c_str(), args.flags);
  DafsStatus status = DafsStatus::kOk;
  if (result != 0) {
    // Both parents are directories, so the error means that the target is incompatible with the
    // source (6.5.34-03).
    const bool incompatible = errno == ENOTEMPTY || errno == EISDIR || errno == ENOTDIR;
    status = incompatible && args.flags == 0 ? DafsStatus::kExist : StatusFromErrno();
  }
  if (replaces) removal.Done(result == 0);
  if (result == 0) {
    NoteChange(store, moved);
    if (args.flags == wire::kRenameExchange) NoteChange(store, other);
    *source_info = source_probe.Modified();
    *target_info = target_probe.has_value() ? target_probe->Modified() : *source_info;
  }
  if (Operation* operation = caller.operation) {
    operation->result().after = source_info->after;
    operation->result().new_after = target_info->after;
    const int changed[] = {source->path_fd(), target->path_fd()};
    operation->Done(status, std::span(changed).first(target_probe.has_value() ? 2 : 1));
  }
  return status;
}

}  // namespace

DafsStatus Store::Rename(const Caller& caller, const wire::RenameArgs& args, wire::RenameRes* res) {
  const wire::Rename2Args plain{args.sourcedir, args.targetdir, args.oldname, args.newname, 0};
  return RenameName(*impl_, caller, plain, &res->source, &res->target);
}

DafsStatus Store::Rename2(const Caller& caller, const wire::Rename2Args& args,
                          wire::Rename2Res* res) {
  return RenameName(*impl_, caller, args, &res->source, &res->target);
}

}  // namespace dafs::server
