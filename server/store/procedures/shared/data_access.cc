#include "server/store/procedures/shared/data_access.h"

#include <fcntl.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/files/unique_fd.h"
#include "server/store/access/act_as.h"
#include "server/store/access/locks/fence_check.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;

int OpenFlags(uint32_t access) {
  return (access == wire::kShareRead ? O_RDONLY : O_WRONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
}

bool ActsAsOwner(const Object& file) {
  struct statx stx;
  return Statx(file.path_fd(), &stx) == 0 &&
         static_cast<uint32_t>(setfsuid(static_cast<uid_t>(-1))) == stx.stx_uid;
}

namespace {

// The server's own lease would make the open for writing fail.
DafsStatus EndLeaseFor(StoreParts& store, const Caller& caller, const Object& file) {
  if (!store.leases.Has(file.key())) return DafsStatus::kOk;
  if (faccessat(file.path_fd(), "", W_OK, AT_EMPTY_PATH | AT_EACCESS) != 0) {
    const DafsStatus status = StatusFromErrno();
    if (status != DafsStatus::kAcces || !ActsAsOwner(file)) return status;
  }
  STORE_RETURN_IF_NOT_OK(
      store.announcements.Announce(caller, {AnnouncedChange::OfAttributes(file.key())}));
  store.announcements.EndLease(file.key());
  return DafsStatus::kOk;
}

// Opens the file without the rights of an OPEN: the kernel checks the caller's identity. The owner
// of a file may write even without write permission. A client that wrote to a read-only file
// through the OPEN that created it may have to repeat the write after that OPEN is closed.
DafsStatus OpenAsCaller(StoreParts& store, const Caller& caller, uint32_t access, WriteUse use,
                        OpenData* data) {
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *data->file->fs().exported));
  const FdPath path(data->file->path_fd());
  if (access == wire::kShareWrite) STORE_RETURN_IF_NOT_OK(EndLeaseFor(store, caller, *data->file));
  UniqueFd fd(open(path.c_str(), OpenFlags(access)));
  if (!fd.valid() && errno == EACCES && access == wire::kShareWrite && ActsAsOwner(*data->file)) {
    ScopedPrivilege privilege;
    fd = UniqueFd(open(path.c_str(), OpenFlags(access)));
  }
  if (!fd.valid() && errno == EPERM && use == WriteUse::kAppends) {
    fd = UniqueFd(open(path.c_str(), OpenFlags(access) | O_APPEND));
  }
  if (!fd.valid()) return StatusFromErrno();
  if (caller.keeps_atime) KeepAtime(fd);
  data->fd = std::make_shared<const UniqueFd>(std::move(fd));
  return DafsStatus::kOk;
}

}  // namespace

DafsStatus SaveOld(StoreParts& store, const Caller& caller, Object& file,
                   const FileChange& change) {
  bool has_saved = false;
  STORE_RETURN_IF_NOT_OK(SaveBefore(store.undo_saves, caller, file, change.bytes(), &has_saved));
  return has_saved ? ActAs(caller, *file.fs().exported) : DafsStatus::kOk;
}

std::shared_ptr<const UniqueFd> AppendFd(Object& file, int* error) {
  std::shared_ptr<const UniqueFd> kept = file.DataFd(/*write=*/true, error);
  if (kept != nullptr || *error != EPERM) return kept;
  // Not kept: a WRITE through it would ignore its offset.
  ScopedPrivilege privilege;
  UniqueFd fd(open(FdPath(file.path_fd()).c_str(), OpenFlags(wire::kShareWrite) | O_APPEND));
  if (fd.valid()) return std::make_shared<const UniqueFd>(std::move(fd));
  *error = errno;
  return nullptr;
}

DafsStatus FindData(StoreParts& store, const Caller& caller, const wire::FileHandle& filehandle,
                    const wire::StateId& state_id, uint32_t access, OpenData* data, WriteUse use) {
  OpenRights rights;
  const bool has_state = !state_id.is_zero();
  const bool write = access == wire::kShareWrite;
  if (has_state) {
    if (!store.objects.IsGenuine(filehandle)) return DafsStatus::kBadHandle;
    // First, because a fence also revokes delegations, and with them state ids.
    STORE_RETURN_IF_NOT_OK(CheckFence(store.fencing, caller, KeyOf(filehandle)));
    STORE_RETURN_IF_NOT_OK(
        store.opens.Find(caller.client_id, state_id, KeyOf(filehandle), &rights));
  }
  if (rights.object != nullptr) {
    data->file = std::move(rights.object);
    STORE_RETURN_IF_NOT_OK(data->file->fs().exported->Admission(caller.peer));
  } else {
    const DafsStatus pseudo = write ? DafsStatus::kRofs : DafsStatus::kInval;
    STORE_RETURN_IF_NOT_OK(store.handles.ResolveObject(caller, filehandle, pseudo, &data->file));
  }
  if (!data->file->is_regular()) return DafsStatus::kInval;
  if (store.grace.active()) {
    STORE_RETURN_IF_NOT_OK(store.grace.CheckIo(caller, data->file->key(), has_state));
  }
  if (write && data->file->fs().exported->read_only) return DafsStatus::kRofs;
  if ((rights.access & access) != 0 || (has_state && access == kShareAny)) {
    int error = 0;
    const bool quiet = caller.keeps_atime && access == wire::kShareRead;
    data->fd = quiet                       ? data->file->QuietFd(&error)
               : use == WriteUse::kAppends ? AppendFd(*data->file, &error)
                                           : data->file->DataFd(write, &error);
    return data->fd != nullptr ? DafsStatus::kOk : StatusFromErrno(error);
  }
  // An open for writing alone may still read, if its user may read and no open denies it. A client
  // that writes part of a page needs the rest of the page. An open for reading alone never writes.
  if (has_state && write) return DafsStatus::kAcces;
  const uint32_t needed = write ? wire::kShareWrite : wire::kShareRead;
  STORE_RETURN_IF_NOT_OK(store.releases.CheckDenied(KeyOf(filehandle), needed, state_id));
  STORE_RETURN_IF_NOT_OK(OpenAsCaller(store, caller, needed, use, data));
  if (!write) {
    return store.announcements.AwaitDelegations(caller, data->file->key(),
                                                Delegations::Use::kReads);
  }
  return store.announcements.Announce(caller, {AnnouncedChange::OfAttributes(data->file->key())});
}

}  // namespace dafs::server
