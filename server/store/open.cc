// OPEN in every create mode, OPEN_HANDLE, OPEN_EXECUTE, CLOSE, OPEN_DOWNGRADE.
// Spec: 6.5.24, 6.5.7, 6.5.26, 4.4.1.2, 4.4.2; WIRE.md 9.4 OPEN, OPEN_HANDLE.
//
// The kernel decides at OPEN, by the caller's identity, whether the file may be read or written;
// what it granted is recorded with the open, and data operations then use descriptors the server
// opens by its own right.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstdio>

#include "server/store/attributes.h"
#include "server/store/data_access.h"
#include "server/store/errno_status.h"
#include "server/store/store_impl.h"
#include "wire/messages_open_close.h"
#include "wire/messages_posix.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Holds the verifier of the exclusive create that made the file. Users can neither see nor set it.
constexpr char kVerifierAttribute[] = "trusted.dafs.verifier";
constexpr mode_t kFileMode = 0600;  // when no MODE was given: never more open than asked for
constexpr int kCreateAttempts = 8;  // against names that come and go between two calls

// How an open file came about.
enum class Made : uint8_t {
  kFound,      // it was there: the caller's rights count
  kCreated,    // by this OPEN, whatever rights its mode gives
  kPermitted,  // it was there, and the rights were looked at
  kReclaimed,  // it was open before the server was started
};

DafsStatus CheckShare(uint32_t access, uint32_t deny) {
  return access >= wire::kShareRead && access <= wire::kShareBoth && deny <= wire::kShareBoth
             ? DafsStatus::kOk
             : DafsStatus::kInval;
}

DafsStatus CheckOpen(const wire::OpenArgs& args) {
  STORE_RETURN_IF_NOT_OK(CheckShare(args.share_access, args.share_deny));
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
    default:  // claims of delegations, which this server does not grant
      return create ? DafsStatus::kInval : DafsStatus::kNotSupp;
  }
  return create && args.createmode != wire::CreateMode::kExclusive ? CheckSettable(args.createattrs)
                                                                   : DafsStatus::kOk;
}

OpenRequest RequestOf(const Caller& caller, const wire::OpenArgs& args) {
  OpenRequest request;
  request.client_id = caller.client_id;
  request.holdings = caller.holdings;
  request.owner = args.owner;
  request.access = args.share_access;
  request.deny = args.share_deny;
  request.deny_delete = args.delete_disp == wire::OpenDeleteDisp::kDeny;
  if (args.share_key_type == wire::ShareKeyType::kBoth) request.share_key = args.share_key;
  return request;
}

// Asks the kernel whether the identity entered may open `file` so. What it opened is kept.
DafsStatus CheckRights(Object& file, uint32_t access) {
  const bool read = (access & wire::kShareRead) != 0;
  const bool write = (access & wire::kShareWrite) != 0;
  // A descriptor for reading alone can be kept as such; one for writing is kept as read-write.
  const bool keepable = read || !write;
  if (!keepable || file.HasDataFd(write)) {
    const int mode = (read ? R_OK : 0) | (write ? W_OK : 0);
    return faccessat(file.path_fd(), "", mode, AT_EMPTY_PATH | AT_EACCESS) == 0 ? DafsStatus::kOk
                                                                                : StatusFromErrno();
  }
  Fd fd(open(FdPath(file.path_fd()).c_str(),
             (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.ok()) return StatusFromErrno();
  file.Donate(std::move(fd), write);
  return DafsStatus::kOk;
}

bool MayExecute(const Object& file) {
  return faccessat(file.path_fd(), "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

// Who may but execute a file has it open for reading, by OPEN_EXECUTE. What its owner may have
// opened before he took away his own permission he may reclaim.
DafsStatus CheckReclaim(Object& file, uint32_t access) {
  const DafsStatus status = CheckRights(file, access);
  if (status != DafsStatus::kAcces) return status;
  const bool executes = access == wire::kShareRead && MayExecute(file);
  return executes || ActsAsOwner(file) ? DafsStatus::kOk : status;
}

// Opens `file` for `request`, as the identity entered.
DafsStatus OpenObject(StoreImpl& store, const Caller& caller, const ObjectRef& file,
                      const OpenRequest& request, Made made, wire::StateId* state_id) {
  if (file->is_dir()) return DafsStatus::kIsDir;
  if (file->type() == S_IFLNK) return DafsStatus::kSymlink;
  if (!file->is_regular())
    return DafsStatus::kInval;  // devices and FIFOs are the client's business
  if (file->fs().exported->read_only && (request.access & wire::kShareWrite) != 0) {
    return DafsStatus::kRofs;
  }
  if (made == Made::kFound) {
    STORE_RETURN_IF_NOT_OK(CheckRights(*file, request.access));
    if (store.grace.active()) {
      STORE_RETURN_IF_NOT_OK(store.grace.CheckOpen(caller, file->key(), request.denies()));
    }
  } else if (made == Made::kReclaimed) {
    STORE_RETURN_IF_NOT_OK(CheckReclaim(*file, request.access));
  }
  DafsStatus status = DafsStatus::kOk;
  do {
    absl::MutexLock lock(&store.FileLock(file->key()));
    status = store.opens.Open(request, file, store.MayPin(), state_id);
  } while ((status == DafsStatus::kDenied || status == DafsStatus::kKeyMismatch) &&
           store.RevokeExpired(file->key()));
  return status;
}

// One OPEN with create, in `directory`, as the identity entered.
class Creation {
 public:
  Creation(StoreImpl& store, const Caller& caller, const wire::OpenArgs& args, Object& directory,
           uint64_t change_before)
      : store_(store),
        caller_(caller),
        args_(args),
        directory_(directory),
        change_before_(change_before) {}

  // Makes or finds `name`, and opens it. *made: which of the two.
  DafsStatus Run(const std::string& name, ObjectRef* file, wire::StateId* state_id, bool* made) {
    STORE_RETURN_IF_NOT_OK(CheckName(name));
    const NameGuard guard = store_.GuardName(directory_, name);
    for (int attempt = 0; attempt < kCreateAttempts; ++attempt) {
      DafsStatus status = store_.LookupName(directory_, name, file);
      if (status == DafsStatus::kOk) {
        return OpenExisting(name, *file, state_id);
      }
      if (status != DafsStatus::kNoEnt) return status;
      if (directory_.fs().exported->read_only) return DafsStatus::kRofs;
      status = args_.createmode == wire::CreateMode::kExclusive ? MakeExclusive(name, file)
                                                                : Make(name, file);
      if (status == DafsStatus::kOk) {
        *made = true;
        return OpenObject(store_, caller_, *file, RequestOf(caller_, args_), Made::kCreated,
                          state_id);
      }
      if (status != DafsStatus::kExist) return status;
    }
    return DafsStatus::kDelay;
  }

  // A file without a name, CLAIM_CREATE_UNLINKED.
  DafsStatus RunUnlinked(ObjectRef* file, wire::StateId* state_id) {
    Fd fd(openat(directory_.path_fd(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, Mode()));
    if (!fd.ok()) return errno == EISDIR ? DafsStatus::kNotSupp : StatusFromErrno();
    STORE_RETURN_IF_NOT_OK(Take(fd, file));
    uint64_t set = 0;
    STORE_RETURN_IF_NOT_OK(ApplyAttributes(**file, LeftToSet(), -1, &set));
    Keep(std::move(fd), **file);
    STORE_RETURN_IF_NOT_OK(
        OpenObject(store_, caller_, *file, RequestOf(caller_, args_), Made::kCreated, state_id));
    store_.opens.Pin(*file);      // nothing else keeps it in this instance of the server,
    store_.orphans.Link(**file);  // and this until the next has it
    return DafsStatus::kOk;
  }

 private:
  mode_t Mode() const {
    return args_.createattrs.has(wire::kFattrMode) ? args_.createattrs.mode & wire::kModeBits
                                                   : kFileMode;
  }

  // All but the mode, which the file was made with, and a size it has already.
  wire::FileAttributes LeftToSet() const {
    wire::FileAttributes left = args_.createattrs;
    left.valid &= ~wire::kFattrMode;
    if (left.object_size == 0) left.valid &= ~wire::kFattrObjectSize;
    // Owners and size clear set-id bits. Otherwise the mode is not set again: it would undo what
    // was inherited from a default ACL.
    if (left.valid != 0 && (Mode() & (S_ISUID | S_ISGID)) != 0) left.set(wire::kFattrMode);
    return left;
  }

  // The object of the new file `fd`.
  DafsStatus Take(const Fd& fd, ObjectRef* file) {
    Fd path(open(FdPath(fd.get()).c_str(), O_PATH | O_CLOEXEC));
    if (!path.ok()) return StatusFromErrno();
    return store_.AdoptNewFile(directory_.fs(), std::move(path), file);
  }

  // The file keeps the descriptor it was made with, if it is to be written to.
  void Keep(Fd fd, Object& file) {
    if ((args_.share_access & wire::kShareWrite) != 0) file.Donate(std::move(fd), true);
  }

  // Announces what is to become of `name`, which nobody else can create or remove meanwhile.
  void Begin(const std::string& name, uint32_t flags, const Object* file) {
    Operation* operation = caller_.operation;
    if (operation == nullptr) return;
    Intent& intent = operation->Prepare();
    intent.flags = flags;
    intent.component_count = static_cast<uint32_t>(args_.pathname.size());
    intent.directory = directory_.handle();
    if (file != nullptr) intent.object = file->handle();
    intent.before = change_before_;
    Intent::SetName(intent.name, name);
    operation->Begin();
  }

  // EXIST, from a program of this machine, means another try.
  DafsStatus Done(DafsStatus status, const ObjectRef& file, int changed) {
    Operation* operation = caller_.operation;
    if (operation == nullptr) return status;
    if (status == DafsStatus::kExist) {
      operation->Cancel();
      return status;
    }
    if (status == DafsStatus::kOk) operation->result().object = file->handle();
    operation->Done(status, changed);
    return status;
  }

  DafsStatus Make(const std::string& name, ObjectRef* file) {
    Begin(name, LeftToSet().valid != 0 ? Intent::kUnfinished : 0, nullptr);
    return Done(MakeFile(name, file), *file, directory_.path_fd());
  }

  DafsStatus MakeFile(const std::string& name, ObjectRef* file) {
    Fd fd(openat(directory_.path_fd(), name.c_str(),
                 O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, Mode()));
    if (!fd.ok()) return StatusFromErrno();
    uint64_t set = 0;
    ObjectRef made;
    DafsStatus status = Take(fd, &made);
    if (status == DafsStatus::kOk) {
      // The descriptor is needed for the size even where the mode forbids its owner to write.
      status = ApplyAttributes(*made, LeftToSet(), fd.get(), &set);
    }
    if (status != DafsStatus::kOk) {
      unlinkat(directory_.path_fd(), name.c_str(), 0);
      if (made != nullptr) store_.cache.Erase(made->key());
      // Not EXIST, which would mean another try.
      return status == DafsStatus::kExist ? DafsStatus::kServerFault : status;
    }
    Keep(std::move(fd), *made);
    *file = std::move(made);
    return DafsStatus::kOk;
  }

  DafsStatus MakeExclusive(const std::string& name, ObjectRef* file) {
    Begin(name, 0, nullptr);
    return Done(MakeExclusiveFile(name, file), *file, directory_.path_fd());
  }

  // The file gets its verifier before its name, so that no crash can part them.
  DafsStatus MakeExclusiveFile(const std::string& name, ObjectRef* file) {
    Fd fd(openat(directory_.path_fd(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, kFileMode));
    const bool nameless = fd.ok();
    if (!nameless && errno != EOPNOTSUPP && errno != EISDIR) return StatusFromErrno();
    if (!nameless) {
      fd = Fd(openat(directory_.path_fd(), name.c_str(),
                     O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, kFileMode));
      if (!fd.ok()) return StatusFromErrno();
    }
    if (int error = SetVerifier(fd.get()); error != 0) {
      if (!nameless) unlinkat(directory_.path_fd(), name.c_str(), 0);
      return StatusFromErrno(error);
    }
    if (nameless && linkat(AT_FDCWD, FdPath(fd.get()).c_str(), directory_.path_fd(), name.c_str(),
                           AT_SYMLINK_FOLLOW) != 0) {
      return StatusFromErrno();
    }
    if (fsync(fd.get()) != 0) {  // 6.5.24-09: the verifier survives the server
      store_.write_verifier->Change();
      return StatusFromErrno();
    }
    STORE_RETURN_IF_NOT_OK(Take(fd, file));
    Keep(std::move(fd), **file);
    return DafsStatus::kOk;
  }

  int SetVerifier(int fd) const {
    ScopedPrivilege privilege;
    const auto& bytes = args_.create_verifier.bytes;
    return fsetxattr(fd, kVerifierAttribute, bytes.data(), bytes.size(), 0) == 0 ? 0 : errno;
  }

  bool HasOurVerifier(const Object& file) const {
    ScopedPrivilege privilege;
    wire::Verifier stored;
    const ssize_t n = getxattr(FdPath(file.path_fd()).c_str(), kVerifierAttribute,
                               stored.bytes.data(), stored.bytes.size());
    return n == static_cast<ssize_t>(stored.bytes.size()) && stored == args_.create_verifier;
  }

  DafsStatus OpenExisting(const std::string& name, const ObjectRef& file, wire::StateId* state_id) {
    const OpenRequest request = RequestOf(caller_, args_);
    if (args_.createmode == wire::CreateMode::kGuarded) return DafsStatus::kExist;
    if (args_.createmode == wire::CreateMode::kExclusive) {
      // A repetition of the request that made it succeeds as that one did (6.5.24-07).
      if (!file->is_regular() || !HasOurVerifier(*file)) return DafsStatus::kExist;
      return OpenObject(store_, caller_, file, request, Made::kFound, state_id);
    }
    STORE_RETURN_IF_NOT_OK(OpenObject(store_, caller_, file, request, Made::kFound, state_id));
    // Of an existing file's attributes only a size of zero is heeded (6.5.24-05).
    if (!args_.createattrs.has(wire::kFattrObjectSize) || args_.createattrs.object_size != 0) {
      return DafsStatus::kOk;
    }
    DafsStatus status = file->fs().exported->read_only ? DafsStatus::kRofs : Truncate(name, file);
    if (status != DafsStatus::kOk) {
      store_.CloseOpen(caller_.client_id, *state_id, file->key());
    }
    return status;
  }

  // Nobody writes to the file until the journal says that it was empty.
  DafsStatus Truncate(const std::string& name, const ObjectRef& file) {
    absl::MutexLock lock(&store_.AppendLock(file->key()));
    Begin(name, Intent::kTruncates, file.get());
    const DafsStatus status =
        truncate(FdPath(file->path_fd()).c_str(), 0) == 0 ? DafsStatus::kOk : StatusFromErrno();
    file->change().Modified();
    return Done(status, file, file->path_fd());
  }

  StoreImpl& store_;
  const Caller& caller_;
  const wire::OpenArgs& args_;
  Object& directory_;
  const uint64_t change_before_;
};

// CLAIM_NULL: the path's last component is opened in the directory that the others lead to.
DafsStatus OpenByPath(StoreImpl& store, const Caller& caller, const wire::OpenArgs& args,
                      Place place, wire::OpenRes* res) {
  const std::span<const std::string> path(args.pathname);
  DafsStatus status =
      store.Walk(caller, path.first(path.size() - 1), &place, &res->component_count);
  if (res->component_count > 0) res->filehandle = place.handle();
  if (status == DafsStatus::kSymlink) return DafsStatus::kNotDir;  // 6.5.24-27
  STORE_RETURN_IF_NOT_OK(status);
  const std::string& name = path.back();
  const bool create = args.open_type == wire::OpenType::kCreate;
  if (place.pseudo != nullptr) {
    if (place.pseudo->children.contains(name)) return DafsStatus::kIsDir;
    return create ? DafsStatus::kRofs : DafsStatus::kNoEnt;
  }
  Object& directory = *place.object;
  if (!directory.is_dir()) return DafsStatus::kNotDir;
  STORE_RETURN_IF_NOT_OK(store.Enter(caller, *directory.fs().exported));
  ObjectRef file;
  ChangeProbe probe(directory, caller.recent);
  bool made = false;
  if (create) {
    status = Creation(store, caller, args, directory, probe.before())
                 .Run(name, &file, &res->state_id, &made);
  } else {
    status = store.LookupName(directory, name, &file);
    if (status == DafsStatus::kOk) {
      status =
          OpenObject(store, caller, file, RequestOf(caller, args), Made::kFound, &res->state_id);
    }
  }
  if (status != DafsStatus::kOk) {
    res->state_id = {};  // of an open that is undone: an error has none (WIRE 9.4)
    return status;
  }
  res->filehandle = file->handle();
  res->component_count = static_cast<uint32_t>(path.size());
  res->change_info = made ? probe.Modified() : probe.Unmodified();
  return DafsStatus::kOk;
}

}  // namespace

DafsStatus Store::Open(const Caller& caller, const wire::OpenArgs& args, wire::OpenRes* res) {
  *res = {};
  if (IsOfAttributes(args.claim_handle())) return impl_->attributes.Open(caller, args, res);
  STORE_RETURN_IF_NOT_OK(CheckOpen(args));
  Place place;
  STORE_RETURN_IF_NOT_OK(impl_->Resolve(caller, args.claim_handle(), &place));
  if (args.claim_type == wire::OpenClaimType::kNull) {
    return OpenByPath(*impl_, caller, args, std::move(place), res);
  }
  ObjectRef file;
  if (args.claim_type == wire::OpenClaimType::kCreateUnlinked) {
    if (place.pseudo != nullptr) return DafsStatus::kRofs;
    if (!place.object->is_dir()) return DafsStatus::kNotDir;
    if (place.object->fs().exported->read_only) return DafsStatus::kRofs;
    STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, *place.object->fs().exported));
    STORE_RETURN_IF_NOT_OK(
        Creation(*impl_, caller, args, *place.object, 0).RunUnlinked(&file, &res->state_id));
  } else {
    if (place.pseudo != nullptr) return DafsStatus::kIsDir;
    file = place.object;
    const OpenRequest request = RequestOf(caller, args);
    STORE_RETURN_IF_NOT_OK(impl_->grace.MayReclaimOpen(caller, request.denies()));
    STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, *file->fs().exported));
    STORE_RETURN_IF_NOT_OK(
        OpenObject(*impl_, caller, file, request, Made::kReclaimed, &res->state_id));
    impl_->orphans.Adopt(*file);
    if (file->orphaned()) impl_->opens.Pin(file);
    impl_->grace.Reclaimed(caller, request.denies());
  }
  res->filehandle = file->handle();
  return DafsStatus::kOk;
}

namespace {

// What a handle is to open, with the identity of `caller` entered.
DafsStatus ResolveToOpen(StoreImpl& store, const Caller& caller, const wire::FileHandle& handle,
                         ObjectRef* file) {
  STORE_RETURN_IF_NOT_OK(store.ResolveObject(caller, handle, DafsStatus::kIsDir, file));
  const uint64_t sample = (*file)->change().Sample();
  struct statx stx;
  if (int error = Statx((*file)->path_fd(), &stx); error != 0) return StatusFromErrno(error);
  STORE_RETURN_IF_NOT_OK(store.CheckAlive(**file, stx.stx_nlink));
  if (caller.recent != nullptr) caller.recent->Keep(**file, sample, stx);
  return store.Enter(caller, *(*file)->fs().exported);
}

}  // namespace

DafsStatus Store::OpenHandle(const Caller& caller, const wire::OpenHandleArgs& args,
                             wire::OpenHandleRes* res) {
  STORE_RETURN_IF_NOT_OK(CheckShare(args.share_access, args.share_deny));
  ObjectRef file;
  STORE_RETURN_IF_NOT_OK(ResolveToOpen(*impl_, caller, args.filehandle, &file));
  OpenRequest request;
  request.client_id = caller.client_id;
  request.holdings = caller.holdings;
  request.owner = args.owner;
  request.access = args.share_access;
  request.deny = args.share_deny;
  STORE_RETURN_IF_NOT_OK(OpenObject(*impl_, caller, file, request, Made::kFound, &res->state_id));
  res->filehandle = file->handle();
  return DafsStatus::kOk;
}

// A file that may be read is opened as ever, so that a file system mounted noexec matters only to
// those that may but execute.
DafsStatus Store::OpenExecute(const Caller& caller, const wire::OpenExecuteArgs& args,
                              wire::OpenExecuteRes* res) {
  ObjectRef file;
  STORE_RETURN_IF_NOT_OK(ResolveToOpen(*impl_, caller, args.filehandle, &file));
  OpenRequest request;
  request.client_id = caller.client_id;
  request.holdings = caller.holdings;
  request.owner = args.owner;
  request.access = wire::kShareRead;
  DafsStatus status = OpenObject(*impl_, caller, file, request, Made::kFound, &res->state_id);
  if (status == DafsStatus::kAcces && MayExecute(*file)) {
    status = OpenObject(*impl_, caller, file, request, Made::kPermitted, &res->state_id);
  }
  STORE_RETURN_IF_NOT_OK(status);
  res->filehandle = file->handle();
  return DafsStatus::kOk;
}

DafsStatus StoreImpl::CloseOpen(const wire::ClientId& client_id, const wire::StateId& state_id,
                                const ObjectKey& key) {
  absl::MutexLock lock(&FileLock(key));
  Closed closed;
  STORE_RETURN_IF_NOT_OK(opens.Close(client_id, state_id, key, &closed));
  const LockOwner lock_owner{client_id, closed.owner};
  const LockCount count(locks, key, lock_owner, closed.holdings);
  locks.Release(key, lock_owner);
  if (!closed.last_open && !closed.last_write) return DafsStatus::kOk;
  ObjectRef object = closed.object != nullptr ? closed.object : cache.Find(key);
  if (object == nullptr) return DafsStatus::kOk;
  if (closed.last_write) object->DropWriteFd();
  if (!closed.last_open) return DafsStatus::kOk;
  if (object->orphaned()) orphans.Unlink(*object);
  struct statx stx;
  if (Statx(object->path_fd(), &stx) == 0 && stx.stx_nlink == 0) cache.Erase(key);
  return DafsStatus::kOk;
}

DafsStatus Store::Close(const Caller& caller, const wire::CloseArgs& args) {
  if (IsOfAttributes(args.filehandle)) return impl_->attributes.Close(caller, args);
  if (!impl_->IsGenuine(args.filehandle)) return DafsStatus::kBadHandle;
  OpenRights rights;
  STORE_RETURN_IF_NOT_OK(
      impl_->opens.Find(caller.client_id, args.state_id, KeyOf(args.filehandle), &rights));
  // No open outlives the server: a CLOSE that was begun is done when it is gone.
  if (caller.operation != nullptr) {
    caller.operation->Prepare();
    caller.operation->Begin();
  }
  const DafsStatus status =
      impl_->CloseOpen(caller.client_id, args.state_id, KeyOf(args.filehandle));
  if (caller.operation != nullptr) caller.operation->Done(status, std::span<const int>());
  return status;
}

DafsStatus Store::OpenDowngrade(const Caller& caller, const wire::OpenDowngradeArgs& args) {
  if (!impl_->IsGenuine(args.filehandle)) return DafsStatus::kBadHandle;
  STORE_RETURN_IF_NOT_OK(CheckShare(args.share_access, args.share_deny));
  std::optional<uint64_t> share_key;
  if (args.share_key_type == wire::ShareKeyType::kBoth) share_key = args.share_key;
  ObjectRef drop_write;
  STORE_RETURN_IF_NOT_OK(impl_->opens.Downgrade(caller.client_id, args.state_id,
                                                KeyOf(args.filehandle), args.share_access,
                                                args.share_deny, share_key, &drop_write));
  if (drop_write != nullptr) drop_write->DropWriteFd();
  return DafsStatus::kOk;
}

void StoreImpl::ReleaseClient(const wire::ClientId& client_id) {
  attributes.ReleaseClient(client_id);
  for (const auto& [state_id, key] : opens.OpensOf(client_id)) {
    CloseOpen(client_id, state_id, key);
  }
}

void Store::ReleaseClient(const wire::ClientId& client_id) { impl_->ReleaseClient(client_id); }

void Store::ExpireClient(const wire::ClientId& client_id) {
  impl_->opens.Revoke(client_id);
  impl_->ReleaseClient(client_id);
}

bool StoreImpl::RevokeExpired(const ObjectKey& key) {
  const std::vector<wire::ClientId> expired = opens.ExpiredHolders(key);
  for (const wire::ClientId& client_id : expired) {
    opens.Revoke(client_id);
    ReleaseClient(client_id);
  }
  return !expired.empty();
}

DafsStatus StoreImpl::CheckDenied(const ObjectKey& key, uint32_t access) {
  DafsStatus status = DafsStatus::kOk;
  do {
    status = opens.CheckDenied(key, access);
  } while (status == DafsStatus::kDenied && RevokeExpired(key));
  return status;
}

}  // namespace dafs::server
