#include "server/store/procedures/shared/creation.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"
#include "runtime/log/log_budget.h"
#include "runtime/loop/loop.h"
#include "server/store/attributes/attributes.h"
#include "server/store/procedures/shared/data_access.h"
#include "server/store/procedures/shared/grant.h"
#include "server/store/procedures/shared/open_object.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// The verifier of the exclusive create that made the file. Users can neither see nor set it.
constexpr char kVerifierAttribute[] = "trusted.dafs.verifier";
constexpr mode_t kFileMode = 0600;  // if no MODE was given: never more access than requested
// The name may come or go between two system calls. The later attempts pause, in case a local
// program creates and removes it all the time.
constexpr int kCreateAttempts = 16;
constexpr int kAttemptsAtOnce = 8;
constexpr auto kFirstPause = std::chrono::microseconds(100);  // doubled each time: 26 ms in total

}  // namespace

DafsStatus Creation::Run(const std::string& name, ObjectRef* file, Opened* opened, bool* made) {
  STORE_RETURN_IF_NOT_OK(CheckName(name));
  STORE_RETURN_IF_NOT_OK(store_.lookups.CheckNotReserved(directory_, name));
  const NameGuard guard = store_.object_locks.GuardName(directory_, name);
  const bool read_only = directory_.fs().exported->read_only;
  for (int attempt = 0; attempt < kCreateAttempts; ++attempt) {
    if (attempt >= kAttemptsAtOnce) {
      std::this_thread::sleep_for(kFirstPause * (1 << (attempt - kAttemptsAtOnce)));
    }
    DafsStatus status = DafsStatus::kNoEnt;
    // GUARDED: the creation itself shows whether the name exists, which is rare, so no lookup is
    // needed. With a journal the lookup comes first. An intent is recorded for an absent name only,
    // because a restarted server treats the object at that name as made by the request.
    if (attempt > 0 || args_.createmode != wire::CreateMode::kGuarded || read_only ||
        caller_.operation != nullptr) {
      status = store_.lookups.LookupName(directory_, name, file);
    }
    if (status == DafsStatus::kOk) return OpenExisting(name, *file, opened);
    if (status != DafsStatus::kNoEnt) return status;
    if (read_only) return DafsStatus::kRofs;
    STORE_RETURN_IF_NOT_OK(
        store_.announcements.Announce(caller_, {AnnouncedChange::OfName(directory_, name)}, [&] {
          return store_.lookups.LookupName(directory_, name, file) == DafsStatus::kOk
                     ? DafsStatus::kExist
                     : DafsStatus::kOk;
        }));
    status = args_.createmode == wire::CreateMode::kExclusive ? MakeExclusive(name, file)
                                                              : Make(name, file);
    if (status == DafsStatus::kOk) {
      *made = true;
      return OpenMade(*file, Made::kCreated, opened);
    }
    if (status != DafsStatus::kExist) return status;
  }
  // Not DELAY: the client would retry forever.
  // Of each thread. A client may repeat its request as often as it likes.
  thread_local LogBudget budget;
  if (budget.Admits(Loop::Now())) {
    LogWarning(absl::StrFormat(
        "create of '%s' in export %s: EEXIST, but a lookup finds no such name; the client gets an "
        "I/O error; check that file system%s",
        absl::Utf8SafeCHexEscape(name), directory_.fs().exported->name, budget.TakeLeftOut()));
  }
  return DafsStatus::kIo;
}

DafsStatus Creation::RunUnlinked(ObjectRef* file, Opened* opened) {
  UniqueFd fd(openat(directory_.path_fd(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, Mode()));
  if (!fd.valid()) return errno == EISDIR ? DafsStatus::kNotSupp : StatusFromErrno();
  STORE_RETURN_IF_NOT_OK(Take(fd, file));
  uint64_t set = 0;
  STORE_RETURN_IF_NOT_OK(ApplyAttributes(**file, LeftToSet(), -1, &set));
  Keep(std::move(fd), **file);
  STORE_RETURN_IF_NOT_OK(OpenMade(*file, Made::kCreated, opened));
  // The pin keeps the file in this instance of the server, the link until the next one has it.
  store_.opens.Pin(*file);
  store_.kept_orphans.Of((*file)->fs()).Link(**file);
  store_.open_doubts.Unnamed((*file)->key());
  return DafsStatus::kOk;
}

mode_t Creation::Mode() const {
  return args_.createattrs.has(wire::kFattrMode) ? args_.createattrs.mode & wire::kModeBits
                                                 : kFileMode;
}

// All attributes except the mode, which the file was created with, and a size of zero, which it
// has.
wire::FileAttributes Creation::LeftToSet() const {
  wire::FileAttributes left = args_.createattrs;
  left.valid &= ~wire::kFattrMode;
  if (left.object_size == 0) left.valid &= ~wire::kFattrObjectSize;
  // Setting the owners or the size clears set-id bits, so the mode is set again then. Otherwise it
  // is not, because that would undo what the file inherited from a default ACL.
  if (left.valid != 0 && (Mode() & (S_ISUID | S_ISGID)) != 0) left.set(wire::kFattrMode);
  return left;
}

// Adopts the object of the new file `fd`.
DafsStatus Creation::Take(const UniqueFd& fd, ObjectRef* file) {
  UniqueFd path(open(FdPath(fd.get()).c_str(), O_PATH | O_CLOEXEC));
  if (!path.valid()) return StatusFromErrno();
  return store_.objects.AdoptNewFile(directory_.fs(), std::move(path), file);
}

// Keeps the descriptor that created the file, if the OPEN may write.
void Creation::Keep(UniqueFd fd, Object& file) {
  if ((args_.share_access & wire::kShareWrite) != 0) file.Donate(std::move(fd), true);
}

// Records the intent for `name`. The NameGuard keeps other requests from creating or removing it.
void Creation::Begin(const std::string& name, uint32_t flags, const Object* file) {
  Operation* operation = caller_.operation;
  if (operation == nullptr) return;
  Intent& intent = operation->Prepare();
  intent.flags = flags;
  intent.component_count = static_cast<uint32_t>(args_.pathname.size());
  intent.directory = directory_.handle();
  if (file != nullptr) intent.object = file->handle();
  intent.value = Grace::SumOf(args_.owner);
  intent.before = change_before_;
  if (args_.createattrs.has(wire::kFattrObjectSize)) {
    intent.object_size = args_.createattrs.object_size;
  }
  Intent::SetName(intent.name, name);
  operation->Begin();
}

// EXIST, caused by a local program, makes Run try again.
DafsStatus Creation::Done(DafsStatus status, const ObjectRef& file, int changed) {
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

DafsStatus Creation::Make(const std::string& name, ObjectRef* file) {
  Begin(name, LeftToSet().valid != 0 ? Intent::kUnfinished : 0, nullptr);
  return Done(MakeFile(name, file), *file, directory_.path_fd());
}

DafsStatus Creation::MakeFile(const std::string& name, ObjectRef* file) {
  UniqueFd fd(openat(directory_.path_fd(), name.c_str(),
                     O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, Mode()));
  if (!fd.valid()) return StatusFromErrno();
  uint64_t set = 0;
  ObjectRef made;
  DafsStatus status = Take(fd, &made);
  if (status == DafsStatus::kOk) {
    // Setting the size needs the descriptor, because the mode may deny write access to the owner.
    status = ApplyAttributes(*made, LeftToSet(), fd.get(), &set);
  }
  if (status != DafsStatus::kOk) {
    unlinkat(directory_.path_fd(), name.c_str(), 0);
    if (made != nullptr) store_.cache.Erase(made->key());
    // Not EXIST, which would make Run try again.
    return status == DafsStatus::kExist ? DafsStatus::kServerFault : status;
  }
  Keep(std::move(fd), *made);
  *file = std::move(made);
  return DafsStatus::kOk;
}

DafsStatus Creation::MakeExclusive(const std::string& name, ObjectRef* file) {
  Begin(name, 0, nullptr);
  return Done(MakeExclusiveFile(name, file), *file, directory_.path_fd());
}

// Sets the verifier before the file gets its name, if the file system can create files without a
// name. So a crash cannot separate them.
DafsStatus Creation::MakeExclusiveFile(const std::string& name, ObjectRef* file) {
  UniqueFd fd(openat(directory_.path_fd(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, kFileMode));
  const bool nameless = fd.valid();
  if (!nameless && errno != EOPNOTSUPP && errno != EISDIR) return StatusFromErrno();
  if (!nameless) {
    fd = UniqueFd(openat(directory_.path_fd(), name.c_str(),
                         O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, kFileMode));
    if (!fd.valid()) return StatusFromErrno();
  }
  if (int error = SetVerifier(fd.get()); error != 0) {
    if (!nameless) unlinkat(directory_.path_fd(), name.c_str(), 0);
    return StatusFromErrno(error);
  }
  if (nameless && linkat(AT_FDCWD, FdPath(fd.get()).c_str(), directory_.path_fd(), name.c_str(),
                         AT_SYMLINK_FOLLOW) != 0) {
    return StatusFromErrno();
  }
  if (fsync(fd.get()) != 0) {  // 6.5.24-09: the verifier survives a crash of the server
    store_.write_verifier->Change();
    return StatusFromErrno();
  }
  STORE_RETURN_IF_NOT_OK(Take(fd, file));
  Keep(std::move(fd), **file);
  return DafsStatus::kOk;
}

int Creation::SetVerifier(int fd) const {
  ScopedPrivilege privilege;
  const auto& bytes = args_.create_verifier.bytes;
  return fsetxattr(fd, kVerifierAttribute, bytes.data(), bytes.size(), 0) == 0 ? 0 : errno;
}

bool Creation::HasOurVerifier(const Object& file) const {
  ScopedPrivilege privilege;
  wire::Verifier stored;
  const ssize_t n = getxattr(FdPath(file.path_fd()).c_str(), kVerifierAttribute,
                             stored.bytes.data(), stored.bytes.size());
  return n == static_cast<ssize_t>(stored.bytes.size()) && stored == args_.create_verifier;
}

DafsStatus Creation::OpenMade(const ObjectRef& file, Made made, Opened* opened) {
  return OpenObject(store_, caller_, file, RequestOf(caller_, args_), made, opened,
                    InsteadOf(args_));
}

DafsStatus Creation::OpenExisting(const std::string& name, const ObjectRef& file, Opened* opened) {
  if (args_.createmode == wire::CreateMode::kGuarded) return DafsStatus::kExist;
  if (args_.createmode == wire::CreateMode::kExclusive) {
    // A retry of the request that created the file succeeds like that request (6.5.24-07).
    if (!file->is_regular() || !HasOurVerifier(*file)) return DafsStatus::kExist;
    return OpenMade(file, Made::kFound, opened);
  }
  // For an existing file only a size of zero takes effect (6.5.24-05).
  const bool truncates =
      args_.createattrs.has(wire::kFattrObjectSize) && args_.createattrs.object_size == 0;
  // An open for writing announces this itself.
  if (truncates && (args_.share_access & wire::kShareWrite) == 0) {
    STORE_RETURN_IF_NOT_OK(
        store_.announcements.Announce(caller_, {AnnouncedChange::OfAttributes(file->key())}, [&] {
          return faccessat(file->path_fd(), "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0
                     ? DafsStatus::kOk
                     : StatusFromErrno();
        }));
  }
  STORE_RETURN_IF_NOT_OK(OpenMade(file, Made::kFound, opened));
  if (!truncates) return DafsStatus::kOk;
  DafsStatus status = file->fs().exported->read_only ? DafsStatus::kRofs : Truncate(name, file);
  if (status != DafsStatus::kOk) Unopen(file, *opened);
  return status;
}

// Undoes the open. An earlier open of the owner stays open and keeps its locks.
void Creation::Unopen(const ObjectRef& file, const Opened& opened) {
  if (opened.delegation.has_value()) return TakeBackDelegation(store_, opened);
  // The open may have ended the lease of a delegation that the result does not end now.
  if (!file->fs().exported->only_clients_change) store_.announcements.RecallAll(file->key());
  if (opened.before.access == 0) {
    store_.releases.CloseOpen(caller_.client_id, opened.state_id, file->key());
    return;
  }
  ObjectRef drop_write;
  store_.opens.TakeBack(RequestOf(caller_, args_), opened.before, file->key(), &drop_write);
  if (drop_write != nullptr) drop_write->DropWriteFd();
}

// The append lock keeps writers out until the journal records that the file was empty.
DafsStatus Creation::Truncate(const std::string& name, const ObjectRef& file) {
  absl::MutexLock lock(&store_.object_locks.AppendLock(file->key()));
  UndoChange bytes;
  STORE_RETURN_IF_NOT_OK(
      CheckResize(store_.persistent_locks, caller_, *file, /*has_state=*/false, 0, &bytes));
  const FileChange change(store_.exported, file->key(), bytes, /*resizes=*/true);
  STORE_RETURN_IF_NOT_OK(SaveOld(store_, caller_, *file, change));  // seldom: the holder's own open
  store_.announcements.EndLease(file->key());
  Begin(name, Intent::kTruncates, file.get());
  const DafsStatus status =
      truncate(FdPath(file->path_fd()).c_str(), 0) == 0 ? DafsStatus::kOk : StatusFromErrno();
  file->change().Modified();
  return Done(status, file, file->path_fd());
}

}  // namespace dafs::server
