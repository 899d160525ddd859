// Changing directories: CREATE, LINK, REMOVE, RENAME, and the private MAKE_NODE and RENAME2.
// Spec: 6.5.9, 6.5.17, 6.5.33, 6.5.34; wire/messages_posix.h.
//
// A file that is open keeps living when its last name goes: before the kernel removes that name as
// the caller, the file is given one in the orphan directory (orphans.h) by the server's own right;
// if the removal is refused, that name is taken away again. The file's lock is held meanwhile, so
// that of two names going at once one is seen to be the last, and no OPEN comes in between check
// and removal.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>

#include "server/store/attributes.h"
#include "server/store/errno_status.h"
#include "server/store/store_impl.h"
#include "wire/messages_namespace.h"
#include "wire/messages_posix.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Without a MODE attribute an object is its owner's alone: never more open than was asked for.
constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kNodeMode = 0600;

// The S_IFMT bits of what mknod(2) makes.
mode_t NodeType(wire::ObjectType type) {
  switch (type) {
    case wire::ObjectType::kReg:
      return S_IFREG;
    case wire::ObjectType::kBlk:
      return S_IFBLK;
    case wire::ObjectType::kChr:
      return S_IFCHR;
    case wire::ObjectType::kSock:
      return S_IFSOCK;
    default:
      return S_IFIFO;
  }
}

bool IsDevice(wire::ObjectType type) {
  return type == wire::ObjectType::kBlk || type == wire::ObjectType::kChr;
}

// Linux has 12 bits for the major number and 20 for the minor.
bool IsDeviceNumber(const wire::SpecData& device) {
  return device.specdata1 <= 0xfff && device.specdata2 <= 0xfffff;
}

int MakeNode(int directory, const std::string& name, wire::ObjectType type, mode_t mode,
             const wire::SpecData& number) {
  const dev_t device = IsDevice(type) ? makedev(static_cast<unsigned>(number.specdata1),
                                                static_cast<unsigned>(number.specdata2))
                                      : 0;
  return mknodat(directory, name.c_str(), NodeType(type) | mode, device);
}

int MakeObject(int directory, const wire::CreateArgs& args) {
  const char* name = args.component.c_str();
  switch (args.obj_type) {
    case wire::ObjectType::kDir: {
      const mode_t mode =
          args.attr.has(wire::kFattrMode) ? args.attr.mode & wire::kModeBits : kDirectoryMode;
      return mkdirat(directory, name, mode);
    }
    case wire::ObjectType::kLnk:
      return symlinkat(args.linkdata.c_str(), directory, name);
    default:
      return MakeNode(directory, args.component, args.obj_type, kNodeMode, args.specdata);
  }
}

DafsStatus CheckCreate(const wire::CreateArgs& args) {
  STORE_RETURN_IF_NOT_OK(CheckName(args.component));
  switch (args.obj_type) {
    case wire::ObjectType::kDir:
      return CheckSettable(args.attr);
    case wire::ObjectType::kLnk:
      if (args.linkdata.empty() || args.linkdata.find('\0') != std::string::npos) {
        return DafsStatus::kInval;
      }
      break;
    case wire::ObjectType::kBlk:
    case wire::ObjectType::kChr:
      if (!IsDeviceNumber(args.specdata)) return DafsStatus::kInval;
      break;
    case wire::ObjectType::kSock:
    case wire::ObjectType::kFifo:
      break;
    default:
      return DafsStatus::kBadType;
  }
  return args.attr.included == 0 ? DafsStatus::kOk : DafsStatus::kInval;
}

// The attributes of a new directory that mkdir has not set: all but the mode, and the mode too if
// its set-id bits, which mkdir ignores, were asked for.
wire::FileAttributes LeftToSet(const wire::FileAttributes& attr) {
  wire::FileAttributes left = attr;
  if ((attr.mode & (S_ISUID | S_ISGID)) == 0) left.valid &= ~wire::kFattrMode;
  return left;
}

// What follows once a new object has its name: its attributes, its handle, and its directory's
// CHANGE. If the attributes cannot be set, it is removed again.
DafsStatus FinishNode(StoreImpl& store, Object& directory, const wire::CreateArgs& args,
                      ChangeProbe* probe, wire::CreateRes* res) {
  ObjectRef object;
  DafsStatus status = store.LookupName(directory, args.component, &object);
  if (status == DafsStatus::kOk && args.obj_type == wire::ObjectType::kDir) {
    uint64_t set = 0;
    status = ApplyAttributes(*object, LeftToSet(args.attr), -1, &set);
    if (status != DafsStatus::kOk) {
      unlinkat(directory.path_fd(), args.component.c_str(), AT_REMOVEDIR);
      store.cache.Erase(object->key());
    }
  }
  const wire::ChangeInfo info = probe->Modified();
  if (status != DafsStatus::kOk) return status;
  res->filehandle = object->handle();
  res->change_info = info;
  return DafsStatus::kOk;
}

// EXIST, before an intent is recorded whose traces would be those of whoever made the name.
DafsStatus CheckAbsent(Object& directory, const std::string& name) {
  struct stat st;
  if (fstatat(directory.path_fd(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
    return DafsStatus::kExist;
  }
  return errno == ENOENT ? DafsStatus::kOk : StatusFromErrno();
}

}  // namespace

DafsStatus Store::Create(const Caller& caller, const wire::CreateArgs& args, wire::CreateRes* res) {
  STORE_RETURN_IF_NOT_OK(CheckCreate(args));
  ObjectRef directory;
  STORE_RETURN_IF_NOT_OK(impl_->ResolveTargetDir(caller, args.filehandle, &directory));
  STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, *directory->fs().exported));
  const NameGuard guard = impl_->GuardName(*directory, args.component);
  STORE_RETURN_IF_NOT_OK(CheckAbsent(*directory, args.component));
  ChangeProbe probe(*directory, caller.recent);
  if (Operation* operation = caller.operation) {
    Intent& intent = operation->Prepare();
    const bool unfinished =
        args.obj_type == wire::ObjectType::kDir && LeftToSet(args.attr).valid != 0;
    intent.flags = unfinished ? Intent::kUnfinished : 0;
    intent.directory = directory->handle();
    intent.before = probe.before();
    Intent::SetName(intent.name, args.component);
    operation->Begin();
  }
  DafsStatus status =
      MakeObject(directory->path_fd(), args) == 0 ? DafsStatus::kOk : StatusFromErrno();
  if (status == DafsStatus::kOk) status = FinishNode(*impl_, *directory, args, &probe, res);
  if (Operation* operation = caller.operation) {
    operation->result().object = res->filehandle;
    operation->result().after = res->change_info.after;
    operation->Done(status, directory->path_fd());
  }
  return status;
}

DafsStatus Store::MakeNode(const Caller& caller, const wire::MakeNodeArgs& args,
                           wire::MakeNodeRes* res) {
  STORE_RETURN_IF_NOT_OK(CheckName(args.component));
  if (IsDevice(args.obj_type) && !IsDeviceNumber(args.specdata)) return DafsStatus::kInval;
  ObjectRef directory;
  STORE_RETURN_IF_NOT_OK(impl_->ResolveTargetDir(caller, args.filehandle, &directory));
  STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, *directory->fs().exported));
  const NameGuard guard = impl_->GuardName(*directory, args.component);
  STORE_RETURN_IF_NOT_OK(CheckAbsent(*directory, args.component));
  ChangeProbe probe(*directory, caller.recent);
  if (Operation* operation = caller.operation) {
    Intent& intent = operation->Prepare();
    intent.directory = directory->handle();
    intent.before = probe.before();
    Intent::SetName(intent.name, args.component);
    operation->Begin();
  }
  const int made = server::MakeNode(directory->path_fd(), args.component, args.obj_type, args.mode,
                                    args.specdata);
  DafsStatus status = made == 0 ? DafsStatus::kOk : StatusFromErrno();
  ObjectRef object;
  if (made == 0) {
    res->change_info = probe.Modified();
    status = impl_->LookupName(*directory, args.component, &object);
  }
  if (object != nullptr) res->filehandle = object->handle();
  if (Operation* operation = caller.operation) {
    operation->result().object = res->filehandle;
    operation->result().after = res->change_info.after;
    operation->Done(status, directory->path_fd());
  }
  return status;
}

DafsStatus Store::Link(const Caller& caller, const wire::LinkArgs& args, wire::LinkRes* res) {
  STORE_RETURN_IF_NOT_OK(CheckName(args.newname));
  ObjectRef directory, source;
  STORE_RETURN_IF_NOT_OK(impl_->ResolveTargetDir(caller, args.destination_object, &directory));
  STORE_RETURN_IF_NOT_OK(
      impl_->ResolveObject(caller, args.source_object, DafsStatus::kIsDir, &source));
  if (source->is_dir()) return DafsStatus::kIsDir;
  if (&source->fs() != &directory->fs()) return DafsStatus::kXdev;
  STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, *directory->fs().exported));
  const NameGuard guard = impl_->GuardName(*directory, args.newname);
  STORE_RETURN_IF_NOT_OK(CheckAbsent(*directory, args.newname));
  ChangeProbe probe(*directory, caller.recent);
  if (Operation* operation = caller.operation) {
    Intent& intent = operation->Prepare();
    intent.directory = directory->handle();
    intent.object = source->handle();
    intent.before = probe.before();
    Intent::SetName(intent.name, args.newname);
    operation->Begin();
  }
  DafsStatus status = DafsStatus::kOk;
  if (linkat(AT_FDCWD, FdPath(source->path_fd()).c_str(), directory->path_fd(),
             args.newname.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    const int error = errno;
    status = StatusFromErrno(error);
    // The kernel says ENOENT also of a source that has no name any more.
    struct statx stx;
    if (error == ENOENT && Statx(source->path_fd(), &stx) == 0 &&
        impl_->CheckAlive(*source, stx.stx_nlink) != DafsStatus::kOk) {
      status = DafsStatus::kStale;
    }
  } else {
    source->change().Modified();
    res->change_info = probe.Modified();
  }
  if (Operation* operation = caller.operation) {
    operation->result().after = res->change_info.after;
    operation->Done(status, directory->path_fd());
  }
  return status;
}

namespace {

// A name about to lose its file: what has to happen before and after the kernel removes it.
// The file's lock is held by the caller as long as this lives.
class Removal {
 public:
  Removal(StoreImpl& store, const Caller& caller, const ObjectKey& key)
      : store_(store), caller_(caller), key_(key) {}

  // DENYDISP_CONFLICT if an open forbids it.
  DafsStatus Prepare(bool check_open) {
    STORE_RETURN_IF_NOT_OK(store_.opens.CheckRemoval(key_, check_open));
    if (store_.opens.CheckRemoval(key_, /*check_open=*/true) == DafsStatus::kOk) {
      if (store_.grace.active() && store_.grace.expects_opens()) LinkForReclaim();
      return DafsStatus::kOk;  // nobody has it open
    }
    Place place;
    STORE_RETURN_IF_NOT_OK(store_.Resolve(caller_, store_.mac.Seal(key_), &place));
    object_ = place.object;
    store_.opens.Pin(object_);
    struct statx stx;
    if (Statx(object_->path_fd(), &stx) == 0 && stx.stx_nlink == 1 && !object_->orphaned()) {
      linked_ = store_.orphans.Link(*object_);  // if not, the pinned descriptor keeps it
    }
    return DafsStatus::kOk;
  }

  // Nobody is known to have it open, but some opens have still to be reclaimed: the file lives as
  // long as that may happen.
  void LinkForReclaim() {
    Place place;
    struct statx stx;
    if (store_.ResolveHandle(store_.mac.Seal(key_), &place) != DafsStatus::kOk ||
        place.object == nullptr || !place.object->is_regular() ||
        Statx(place.object->path_fd(), &stx) != 0 || stx.stx_nlink > 1) {
      return;
    }
    store_.orphans.LinkLeft(*place.object);  // should it not be removed, the name is only one more
  }

  void Done(bool removed) {
    if (!removed) {
      if (linked_) store_.orphans.Unlink(*object_);
      return;
    }
    ObjectRef object = object_ != nullptr ? object_ : store_.cache.Find(key_);
    if (object == nullptr) return;
    object->change().Modified();
    struct statx stx;
    if (object_ == nullptr &&
        (Statx(object->path_fd(), &stx) != 0 || stx.stx_nlink == 0 || object->is_dir())) {
      store_.cache.Erase(key_);  // its descriptor must not keep what is gone
    }
  }

 private:
  StoreImpl& store_;
  const Caller& caller_;
  const ObjectKey key_;
  ObjectRef object_;  // of an open file
  bool linked_ = false;
};

// The handle of what has `key`. A new MAC costs as much as a system call.
wire::FileHandle HandleOf(StoreImpl& store, const ObjectKey& key) {
  ObjectRef object = store.cache.Find(key);
  return object != nullptr ? object->handle() : store.mac.Seal(key);
}

// The key of `name` in `directory`, as the identity entered.
DafsStatus KeyOfName(StoreImpl& store, Object& directory, const std::string& name, ObjectKey* key) {
  KernelHandle handle;
  if (int error = GetKernelHandle(directory.path_fd(), name.c_str(), &handle); error != 0) {
    return error == EOPNOTSUPP ? DafsStatus::kAcces : StatusFromErrno(error);
  }
  const FileSystem* fs = store.mounts->FindByMountId(directory.fs(), handle.mount_id);
  if (fs == nullptr) return DafsStatus::kAcces;
  *key = MakeKey(fs->fshandle, HandleKind::kFile, handle.type, {handle.bytes, handle.length});
  return DafsStatus::kOk;
}

}  // namespace

DafsStatus Store::Remove(const Caller& caller, const wire::RemoveArgs& args, wire::RemoveRes* res) {
  if (IsOfAttributes(args.filehandle)) return impl_->attributes.Remove(caller, args, res);
  STORE_RETURN_IF_NOT_OK(CheckName(args.target));
  ObjectRef directory;
  STORE_RETURN_IF_NOT_OK(impl_->ResolveTargetDir(caller, args.filehandle, &directory));
  const Export& exported = *directory->fs().exported;
  STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, exported));
  const NameGuard guard = impl_->GuardName(*directory, args.target);
  ObjectKey key;
  STORE_RETURN_IF_NOT_OK(KeyOfName(*impl_, *directory, args.target, &key));
  absl::MutexLock lock(&impl_->FileLock(key));
  Removal removal(*impl_, caller, key);
  STORE_RETURN_IF_NOT_OK(removal.Prepare(args.remove_mode == wire::RemoveMode::kCheckOpen));
  ChangeProbe probe(*directory, caller.recent);
  if (Operation* operation = caller.operation) {
    Intent& intent = operation->Prepare();
    intent.directory = directory->handle();
    intent.object = HandleOf(*impl_, key);
    intent.before = probe.before();
    Intent::SetName(intent.name, args.target);
    operation->Begin();
  }
  int result = unlinkat(directory->path_fd(), args.target.c_str(), 0);
  if (result != 0 && errno == EISDIR) {
    result = unlinkat(directory->path_fd(), args.target.c_str(), AT_REMOVEDIR);
  }
  const DafsStatus status = result == 0 ? DafsStatus::kOk : StatusFromErrno();
  removal.Done(result == 0);
  if (result == 0) res->change_info = probe.Modified();
  if (Operation* operation = caller.operation) {
    operation->result().after = res->change_info.after;
    operation->Done(status, directory->path_fd());
  }
  return status;
}

namespace {

// The object of `key`, if it is known, has changed.
void NoteChange(StoreImpl& store, const ObjectKey& key) {
  if (ObjectRef object = store.cache.Find(key); object != nullptr) object->change().Modified();
}

// RENAME and RENAME2. Without flags the new name's object is replaced, and a target that does not
// go with the source is EXIST (6.5.34-03).
DafsStatus RenameName(StoreImpl& store, const Caller& caller, const wire::Rename2Args& args,
                      wire::ChangeInfo* source_info, wire::ChangeInfo* target_info) {
  STORE_RETURN_IF_NOT_OK(CheckName(args.oldname));
  STORE_RETURN_IF_NOT_OK(CheckName(args.newname));
  ObjectRef source, target;
  STORE_RETURN_IF_NOT_OK(store.ResolveTargetDir(caller, args.sourcedir, &source));
  STORE_RETURN_IF_NOT_OK(store.ResolveTargetDir(caller, args.targetdir, &target));
  if (&source->fs() != &target->fs()) return DafsStatus::kXdev;
  STORE_RETURN_IF_NOT_OK(store.Enter(caller, *source->fs().exported));
  const NameGuard guard = store.GuardNames(*source, args.oldname, *target, args.newname);
  ObjectKey moved, other;
  STORE_RETURN_IF_NOT_OK(KeyOfName(store, *source, args.oldname, &moved));
  const DafsStatus existing = KeyOfName(store, *target, args.newname, &other);
  // Two names of one object: the kernel does nothing (6.5.34-04), so nothing is replaced.
  const bool replaces = args.flags == 0 && existing == DafsStatus::kOk && other != moved;

  absl::MutexLock lock(&store.FileLock(replaces ? other : moved));
  Removal removal(store, caller, other);
  if (replaces) {
    const DafsStatus status = removal.Prepare(/*check_open=*/false);
    // RENAME has no DENYDISP_CONFLICT; a target that may not be removed may not be replaced.
    if (status == DafsStatus::kDenyDispConflict) return DafsStatus::kAcces;
    STORE_RETURN_IF_NOT_OK(status);
  }
  ChangeProbe source_probe(*source, caller.recent);
  std::optional<ChangeProbe> target_probe;  // of another directory
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
    // Both are directories, so these speak of a target that does not go with the source
    // (6.5.34-03).
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
