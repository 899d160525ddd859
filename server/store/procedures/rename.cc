// RENAME, and the private RENAME2. Spec: 6.5.34; wire/messages/posix.h.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>

#include "server/store/access/act_as.h"
#include "server/store/access/locks/fence_check.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/name_procedures.h"
#include "server/store/procedures/removal.h"
#include "server/store/system/errno_status.h"
#include "wire/messages/namespace.h"
#include "wire/messages/posix.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Marks the object of `key` as changed, if it is cached.
void NoteChange(StoreParts& store, const ObjectKey& key) {
  if (ObjectRef object = store.cache.Find(key); object != nullptr) object->change().Modified();
}

// Finds both directories, enters their export and checks the names.
DafsStatus ResolveDirectories(StoreParts& store, const Caller& caller,
                              const wire::Rename2Args& args, ObjectRef* source, ObjectRef* target) {
  STORE_RETURN_IF_NOT_OK(CheckName(args.oldname));
  STORE_RETURN_IF_NOT_OK(CheckName(args.newname));
  STORE_RETURN_IF_NOT_OK(store.handles.ResolveTargetDir(caller, args.sourcedir, source));
  STORE_RETURN_IF_NOT_OK(store.handles.ResolveTargetDir(caller, args.targetdir, target));
  // Between subvolumes of a mount the kernel decides: it moves a subvolume, but no other object.
  if (&(*source)->fs().mount() != &(*target)->fs().mount()) return DafsStatus::kXdev;
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *(*source)->fs().exported));
  STORE_RETURN_IF_NOT_OK(store.lookups.CheckNotReserved(**source, args.oldname));
  return store.lookups.CheckNotReserved(**target, args.newname);
}

// The objects at the two names of a rename.
struct Found {
  ObjectKey moved;
  DafsStatus existing = DafsStatus::kOk;  // of the new name
  ObjectKey other;                        // its object, if there is one

  // Two names of one object: the kernel does nothing (6.5.34-04), so nothing is replaced.
  bool is_same() const { return existing == DafsStatus::kOk && other == moved; }
  bool replaces(const wire::Rename2Args& args) const {
    return args.flags == 0 && existing == DafsStatus::kOk && other != moved;
  }
};

// Announces all that a rename changes.
DafsStatus Announce(StoreParts& store, const Caller& caller, const wire::Rename2Args& args,
                    const Object& source, const Object& target, const Found& found) {
  if (found.is_same()) return DafsStatus::kOk;
  const auto refusal = [&] {
    const bool exists = found.existing == DafsStatus::kOk;
    if (args.flags == wire::kRenameNoReplace && exists) return DafsStatus::kExist;
    if (args.flags == wire::kRenameExchange && !exists) return found.existing;
    if (!found.replaces(args)) return DafsStatus::kOk;
    if (store.opens.CheckRemoval(found.other, false) != DafsStatus::kOk) return DafsStatus::kAcces;
    return IsFilledDirectory(target, args.newname) ? DafsStatus::kExist : DafsStatus::kOk;
  };
  const auto from = AnnouncedChange::OfName(source, args.oldname);
  const auto to = AnnouncedChange::OfName(target, args.newname);
  const auto moved = AnnouncedChange::OfAttributes(found.moved);
  if (found.existing != DafsStatus::kOk)
    return store.announcements.Announce(caller, {from, to, moved}, refusal);
  return store.announcements.Announce(
      caller, {from, to, moved, AnnouncedChange::OfAttributes(found.other)}, refusal);
}

// The object of the new name is about to lose that name.
DafsStatus PrepareReplaced(Removal& removal) {
  const DafsStatus status = removal.Prepare(/*check_open=*/false);
  // RENAME has no DENYDISP_CONFLICT. A target that must not be removed must not be replaced.
  return status == DafsStatus::kDenyDispConflict ? DafsStatus::kAcces : status;
}

// The directories of a rename, which may be one, their CHANGE, and what the journal records of it.
class ChangedDirectories {
 public:
  ChangedDirectories(Object& source, Object& target, RecentStats* recent)
      : source_(source), target_(target), source_probe_(source, recent) {
    if (&target != &source) target_probe_.emplace(target, recent);
  }

  void Begin(Operation& operation, const wire::Rename2Args& args, const wire::FileHandle& moved) {
    Intent& intent = operation.Prepare();
    intent.directory = source_.handle();
    intent.new_directory = target_.handle();
    intent.object = moved;
    intent.before = source_probe_.before();
    intent.new_before = target_probe_.has_value() ? target_probe_->before() : intent.before;
    Intent::SetName(intent.name, args.oldname);
    Intent::SetName(intent.new_name, args.newname);
    operation.Begin();
  }
  // Call after a rename that succeeded.
  void Modified(wire::ChangeInfo* source, wire::ChangeInfo* target) {
    *source = source_probe_.Modified();
    *target = target_probe_.has_value() ? target_probe_->Modified() : *source;
  }
  void Done(Operation& operation, DafsStatus status, const wire::ChangeInfo& source,
            const wire::ChangeInfo& target) {
    operation.result().after = source.after;
    operation.result().new_after = target.after;
    const int changed[] = {source_.path_fd(), target_.path_fd()};
    operation.Done(status, std::span(changed).first(target_probe_.has_value() ? 2 : 1));
  }

 private:
  Object& source_;
  Object& target_;
  ChangeProbe source_probe_;
  std::optional<ChangeProbe> target_probe_;  // set if it is another directory
};

DafsStatus RenameInKernel(const Object& source, const Object& target,
                          const wire::Rename2Args& args) {
  static_assert(wire::kRenameNoReplace == RENAME_NOREPLACE &&
                wire::kRenameExchange == RENAME_EXCHANGE);
  if (renameat2(source.path_fd(), args.oldname.c_str(), target.path_fd(), args.newname.c_str(),
                args.flags) == 0) {
    return DafsStatus::kOk;
  }
  // Both parents are directories, so the error means that the target is incompatible with the
  // source (6.5.34-03).
  const bool incompatible = errno == ENOTEMPTY || errno == EISDIR || errno == ENOTDIR;
  return incompatible && args.flags == 0 ? DafsStatus::kExist : StatusFromErrno();
}

// RENAME and RENAME2. Without flags, replaces the object of the new name. A target whose type does
// not match the source fails with EXIST (6.5.34-03).
DafsStatus RenameName(StoreParts& store, const Caller& caller, const wire::Rename2Args& args,
                      wire::ChangeInfo* source_info, wire::ChangeInfo* target_info) {
  ObjectRef source, target;
  STORE_RETURN_IF_NOT_OK(ResolveDirectories(store, caller, args, &source, &target));
  const NameGuard guard =
      store.object_locks.GuardNames(*source, args.oldname, *target, args.newname);
  Found found;
  const ObjectKey& moved = found.moved;
  const ObjectKey& other = found.other;
  STORE_RETURN_IF_NOT_OK(KeyOfName(store, *source, args.oldname, &found.moved));
  STORE_RETURN_IF_NOT_OK(CheckFence(store.fencing, caller, moved));
  found.existing = KeyOfName(store, *target, args.newname, &found.other);
  if (found.existing == DafsStatus::kOk) {
    STORE_RETURN_IF_NOT_OK(CheckFence(store.fencing, caller, other));
  }
  const bool replaces = found.replaces(args);
  if (replaces) RevokeForRemoval(store, other, /*check_open=*/false);

  absl::MutexLock lock(&store.object_locks.FileLock(replaces ? other : moved));
  STORE_RETURN_IF_NOT_OK(Announce(store, caller, args, *source, *target, found));
  Removal removal(store, caller, other);
  if (replaces) STORE_RETURN_IF_NOT_OK(PrepareReplaced(removal));
  ChangedDirectories directories(*source, *target, caller.recent);
  Operation* const operation = caller.operation;
  if (operation != nullptr) directories.Begin(*operation, args, HandleOf(store, moved));
  const DafsStatus status = RenameInKernel(*source, *target, args);
  if (replaces) removal.Done(status == DafsStatus::kOk);
  if (status == DafsStatus::kOk) {
    NoteChange(store, moved);
    if (args.flags == wire::kRenameExchange) NoteChange(store, other);
    directories.Modified(source_info, target_info);
  }
  if (operation != nullptr) directories.Done(*operation, status, *source_info, *target_info);
  return status;
}

}  // namespace

DafsStatus NameProcedures::Rename(const Caller& caller, const wire::RenameArgs& args,
                                  wire::RenameRes* res) {
  const wire::Rename2Args plain{args.sourcedir, args.targetdir, args.oldname, args.newname, 0};
  return RenameName(store_, caller, plain, &res->source, &res->target);
}

DafsStatus NameProcedures::Rename2(const Caller& caller, const wire::Rename2Args& args,
                                   wire::Rename2Res* res) {
  return RenameName(store_, caller, args, &res->source, &res->target);
}

}  // namespace dafs::server
