// New names: CREATE, LINK, and the private MAKE_NODE.
// Spec: 6.5.9, 6.5.17; wire/messages/posix.h.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "absl/functional/function_ref.h"
#include "server/store/access/act_as.h"
#include "server/store/attributes/attributes.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/name_procedures.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/statx.h"
#include "wire/messages/namespace.h"
#include "wire/messages/posix.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Without a MODE attribute only the owner has access: never more access than requested.
constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kNodeMode = 0600;

// The S_IFMT bits for mknod(2).
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

// The attributes that mkdir did not set on a new directory: all except the mode. Also the mode if
// it has set-id bits, which mkdir ignores.
wire::FileAttributes LeftToSet(const wire::FileAttributes& attr) {
  wire::FileAttributes left = attr;
  if ((attr.mode & (S_ISUID | S_ISGID)) == 0) left.valid &= ~wire::kFattrMode;
  return left;
}

// Completes a new object that has its name: sets its attributes, and returns its handle and the
// CHANGE of its directory. If the attributes cannot be set, removes the object.
DafsStatus FinishNode(StoreParts& store, const Caller& caller, Object& directory,
                      const wire::CreateArgs& args, ChangeProbe* probe, wire::CreateRes* res) {
  ObjectRef object;
  DafsStatus status = store.lookups.LookupName(directory, args.component, &object);
  if (status == DafsStatus::kOk && args.obj_type == wire::ObjectType::kDir) {
    uint64_t set = 0;
    status = ApplyAttributes(*object, LeftToSet(args.attr), -1, &set);
    store.announcements.AnnounceNew(caller, object->key());
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

// Fails with EXIST before the intent is recorded. Otherwise a restarted server would mistake the
// existing object for the one that this request made.
DafsStatus CheckAbsent(Object& directory, const std::string& name) {
  struct stat st;
  if (fstatat(directory.path_fd(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
    return DafsStatus::kExist;
  }
  return errno == ENOENT ? DafsStatus::kOk : StatusFromErrno();
}

// As for link(2), a file that had names and exists only because it is open cannot get another. (Of
// a file that an earlier run of the server left, it is not known whether it ever had a name.)
bool HasLostItsNames(const Object& file) {
  struct statx stx;
  return file.orphaned() && file.name_removed() && Statx(file.path_fd(), &stx) == 0 &&
         stx.stx_nlink == 1;
}

// A file that was created without a name has one now, which keeps it instead of the hidden one. A
// removal of the name gives it a hidden one again, if it is still open.
void DropHiddenName(StoreParts& store, Object& file) {
  absl::MutexLock lock(&store.object_locks.FileLock(file.key()));
  if (file.orphaned()) store.kept_orphans.Of(file.fs()).Unlink(file);
}

// CREATE and MAKE_NODE, after their arguments were checked. `make` makes the object, and sets
// `res`. Its name is absent until then, and no other request uses the name. `flags`: of the intent.
template <class Args, class Res>
DafsStatus MakeNamed(StoreParts& store, const Caller& caller, const Args& args, uint32_t flags,
                     Res* res, absl::FunctionRef<DafsStatus(Object&, ChangeProbe&)> make) {
  ObjectRef directory;
  STORE_RETURN_IF_NOT_OK(store.handles.ResolveTargetDir(caller, args.filehandle, &directory));
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *directory->fs().exported));
  STORE_RETURN_IF_NOT_OK(store.lookups.CheckNotReserved(*directory, args.component));
  const NameGuard guard = store.object_locks.GuardName(*directory, args.component);
  STORE_RETURN_IF_NOT_OK(CheckAbsent(*directory, args.component));
  STORE_RETURN_IF_NOT_OK(
      store.announcements.Announce(caller, {AnnouncedChange::OfName(*directory, args.component)}));
  ChangeProbe probe(*directory, caller.recent);
  if (Operation* operation = caller.operation) {
    operation->Begin(directory->handle(), args.component, probe.before(), {}, flags);
  }
  const DafsStatus status = make(*directory, probe);
  if (Operation* operation = caller.operation) {
    operation->result().object = res->filehandle;
    operation->result().after = res->change_info.after;
    operation->Done(status, directory->path_fd());
  }
  return status;
}

}  // namespace

DafsStatus NameProcedures::Create(const Caller& caller, const wire::CreateArgs& args,
                                  wire::CreateRes* res) {
  STORE_RETURN_IF_NOT_OK(CheckCreate(args));
  const bool unfinished =
      args.obj_type == wire::ObjectType::kDir && LeftToSet(args.attr).valid != 0;
  const uint32_t flags = unfinished ? Intent::kUnfinished : 0;
  return MakeNamed(store_, caller, args, flags, res, [&](Object& directory, ChangeProbe& probe) {
    if (MakeObject(directory.path_fd(), args) != 0) return StatusFromErrno();
    return FinishNode(store_, caller, directory, args, &probe, res);
  });
}

DafsStatus NameProcedures::MakeNode(const Caller& caller, const wire::MakeNodeArgs& args,
                                    wire::MakeNodeRes* res) {
  STORE_RETURN_IF_NOT_OK(CheckName(args.component));
  if (IsDevice(args.obj_type) && !IsDeviceNumber(args.specdata)) return DafsStatus::kInval;
  return MakeNamed(store_, caller, args, 0, res, [&](Object& directory, ChangeProbe& probe) {
    if (server::MakeNode(directory.path_fd(), args.component, args.obj_type, args.mode,
                         args.specdata) != 0) {
      return StatusFromErrno();
    }
    res->change_info = probe.Modified();
    ObjectRef object;
    const DafsStatus status = store_.lookups.LookupName(directory, args.component, &object);
    if (object != nullptr) res->filehandle = object->handle();
    return status;
  });
}

DafsStatus NameProcedures::Link(const Caller& caller, const wire::LinkArgs& args,
                                wire::LinkRes* res) {
  STORE_RETURN_IF_NOT_OK(CheckName(args.newname));
  ObjectRef directory, source;
  STORE_RETURN_IF_NOT_OK(
      store_.handles.ResolveTargetDir(caller, args.destination_object, &directory));
  STORE_RETURN_IF_NOT_OK(
      store_.handles.ResolveObject(caller, args.source_object, DafsStatus::kIsDir, &source));
  if (source->is_dir()) return DafsStatus::kIsDir;
  if (&source->fs() != &directory->fs()) return DafsStatus::kXdev;
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *directory->fs().exported));
  STORE_RETURN_IF_NOT_OK(store_.lookups.CheckNotReserved(*directory, args.newname));
  const NameGuard guard = store_.object_locks.GuardName(*directory, args.newname);
  STORE_RETURN_IF_NOT_OK(CheckAbsent(*directory, args.newname));
  if (HasLostItsNames(*source)) return DafsStatus::kStale;
  STORE_RETURN_IF_NOT_OK(
      store_.announcements.Announce(caller, {AnnouncedChange::OfName(*directory, args.newname),
                                             AnnouncedChange::OfAttributes(source->key())}));
  ChangeProbe probe(*directory, caller.recent);
  if (Operation* operation = caller.operation) {
    operation->Begin(directory->handle(), args.newname, probe.before(), source->handle());
  }
  DafsStatus status = DafsStatus::kOk;
  if (linkat(AT_FDCWD, FdPath(source->path_fd()).c_str(), directory->path_fd(),
             args.newname.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    const int error = errno;
    status = StatusFromErrno(error);
    // The kernel returns ENOENT also for a source that has lost its last name.
    struct statx stx;
    if (error == ENOENT && Statx(source->path_fd(), &stx) == 0 &&
        store_.objects.CheckAlive(*source, stx.stx_nlink) != DafsStatus::kOk) {
      status = DafsStatus::kStale;
    }
  } else {
    DropHiddenName(store_, *source);
    source->change().Modified();
    res->change_info = probe.Modified();
  }
  if (Operation* operation = caller.operation) {
    operation->result().after = res->change_info.after;
    operation->Done(status, directory->path_fd());
  }
  return status;
}

}  // namespace dafs::server
