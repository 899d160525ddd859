// Values of named attributes: OPEN, CLOSE, READ, WRITE, COMMIT.
// Spec: 4.1.5, 6.5.7, 6.5.8, 6.5.24, 6.5.27, 6.5.38.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/files/unique_fd.h"
#include "server/store/attributes/attributes.h"
#include "server/store/attributes/xattrs.h"
#include "server/store/parts/named_attributes.h"
#include "server/store/parts/store_parts.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"
#include "wire/messages/open_close.h"
#include "wire/messages/read_write.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Spec gap: of `createattrs` a named attribute takes the size alone. Its mode, owner and times are
// those of its object, so the values that a client sends for every new file are ignored here.
uint64_t InitialSize(const wire::OpenArgs& args) {
  return args.createattrs.has(wire::kFattrObjectSize) ? args.createattrs.object_size : 0;
}

// An attribute is never delegated.
uint32_t AccessOf(const wire::OpenArgs& args) {
  return args.share_access & ~wire::kShareWantOpenXorDelegation;
}

// Share reservations, share keys and exclusive creation are supported for files only.
DafsStatus CheckOpen(const wire::OpenArgs& args) {
  if (args.claim_type != wire::OpenClaimType::kNull) return DafsStatus::kNotSupp;
  if (args.pathname.empty()) return DafsStatus::kInval;
  if (args.pathname.size() > 1) return DafsStatus::kNotDir;
  if (AccessOf(args) < wire::kShareRead || AccessOf(args) > wire::kShareBoth) {
    return DafsStatus::kInval;
  }
  if (args.share_deny != wire::kShareDenyNone || args.share_key_type != wire::ShareKeyType::kNone) {
    return DafsStatus::kNotSupp;
  }
  if (args.delete_disp == wire::OpenDeleteDisp::kDeny) return DafsStatus::kDenyDispNotSupp;
  if (args.open_type == wire::OpenType::kNoCreate) return DafsStatus::kOk;
  if (args.createmode == wire::CreateMode::kExclusive) return DafsStatus::kNotSupp;
  STORE_RETURN_IF_NOT_OK(CheckSettable(args.createattrs));
  return InitialSize(args) <= kXattrMost ? DafsStatus::kOk : DafsStatus::kFbig;
}

// Reads the initial value of the open, as the identity entered.
DafsStatus Begin(const Object& object, const wire::OpenArgs& args, AttributeOpen* open) {
  const bool create = args.open_type == wire::OpenType::kCreate;
  // For an existing attribute only a size of zero takes effect (6.5.24-05).
  const bool truncates =
      create && args.createattrs.has(wire::kFattrObjectSize) && InitialSize(args) == 0;
  const bool guarded = create && args.createmode == wire::CreateMode::kGuarded;
  open->mode = guarded ? XattrMode::kCreate : create ? XattrMode::kAny : XattrMode::kReplace;
  open->known = true;
  open->changed = create;
  DafsStatus status = DafsStatus::kNoEnt;
  if (!truncates || guarded) status = GetXattr(object, open->name, &open->value);
  if (guarded && status == DafsStatus::kOk) return DafsStatus::kExist;
  if (truncates) return DafsStatus::kOk;
  if (status == DafsStatus::kNoEnt) {
    if (!create) return status;
    open->value.assign(InitialSize(args), '\0');
    return DafsStatus::kOk;
  }
  // A caller that may write but not read may replace the value. CLOSE reports whether there is one.
  if (status == DafsStatus::kAcces && (args.share_access & wire::kShareRead) == 0) {
    open->known = false;
    return DafsStatus::kOk;
  }
  if (status == DafsStatus::kOk && !guarded && create) open->changed = false;
  return status;
}

// Copies `from` into `value` at `offset`. Extends `value` as a write extends a file.
DafsStatus Overwrite(std::span<const iovec> from, uint64_t offset, std::string& value) {
  uint64_t total = 0;
  for (const iovec& v : from) total += v.iov_len;
  if (offset > kXattrMost || total > kXattrMost - offset) return DafsStatus::kFbig;
  if (value.size() < offset + total) value.resize(offset + total);
  for (const iovec& v : from) {
    if (v.iov_len > 0) std::memcpy(value.data() + offset, v.iov_base, v.iov_len);
    offset += v.iov_len;
  }
  return DafsStatus::kOk;
}

// fsync(2) needs a descriptor, and a descriptor of a device or link does not reach its file system.
bool CanBeSynced(const Object& object) { return object.is_regular() || object.is_dir(); }

ReadResult CopyOut(const std::string& value, uint64_t offset, std::span<const iovec> into) {
  ReadResult result;
  uint64_t at = std::min<uint64_t>(offset, value.size());
  const uint64_t begin = at;
  for (const iovec& v : into) {
    const size_t length = std::min<uint64_t>(v.iov_len, value.size() - at);
    if (length > 0) std::memcpy(v.iov_base, value.data() + at, length);
    at += length;
  }
  result.bytes_read = static_cast<uint32_t>(at - begin);
  result.eof = at == value.size();
  return result;
}

}  // namespace

DafsStatus NamedAttributes::Open(const Caller& caller, const wire::OpenArgs& args,
                                 wire::OpenRes* res) {
  *res = {};
  if (!store_.mac.Verify(args.claim_handle())) return DafsStatus::kBadHandle;
  STORE_RETURN_IF_NOT_OK(CheckOpen(args));
  ObjectRef object;
  STORE_RETURN_IF_NOT_OK(ResolveDirectory(caller, args.claim_handle(), &object));
  AttributeOpen open;
  open.client_id = caller.client_id;
  open.owner = args.owner;
  open.name = args.pathname.front();
  open.access = AccessOf(args);
  const bool changes =
      (open.access & wire::kShareWrite) != 0 || args.open_type == wire::OpenType::kCreate;
  if (changes && object->fs().exported->read_only) {
    return DafsStatus::kRofs;
  }
  if (open.name.size() > kXattrNameMost) return DafsStatus::kNameTooLong;
  STORE_RETURN_IF_NOT_OK(Begin(*object, args, &open));
  const wire::FileHandle handle = HandleOf(*object, open.name);
  open.key = KeyOf(handle);
  STORE_RETURN_IF_NOT_OK(opens_.Add(std::move(open), &res->state_id));
  res->filehandle = handle;
  res->component_count = 1;
  res->change_info = ChangeProbe(*object).Unmodified();  // CLOSE makes the change
  return DafsStatus::kOk;
}

// Announces the change that CLOSE is about to make. The open is kept: CLOSE may be called again.
DafsStatus NamedAttributes::AnnounceClose(const Caller& caller, const wire::CloseArgs& args) {
  const ObjectKey key = KeyOf(args.filehandle);
  bool sets = false;
  STORE_RETURN_IF_NOT_OK(
      opens_.With(caller.client_id, args.state_id, key, [&](AttributeOpen& open) {
        sets = open.changed && !open.spoilt;
        return DafsStatus::kOk;
      }));
  if (!sets) return DafsStatus::kOk;
  return store_.announcements.Announce(caller, {AnnouncedChange::OfAttributes(ObjectKeyOf(key))});
}

DafsStatus NamedAttributes::Close(const Caller& caller, const wire::CloseArgs& args) {
  if (!store_.mac.Verify(args.filehandle)) return DafsStatus::kBadHandle;
  STORE_RETURN_IF_NOT_OK(AnnounceClose(caller, args));
  AttributeOpen open;
  STORE_RETURN_IF_NOT_OK(
      opens_.Take(caller.client_id, args.state_id, KeyOf(args.filehandle), &open));
  if (!open.changed || open.spoilt) return DafsStatus::kOk;
  names_.Insert(NameHashOf(open.key), open.name);
  Target target;
  STORE_RETURN_IF_NOT_OK(ResolveAttribute(caller, args.filehandle, &target));
  if (target.object->fs().exported->read_only) return DafsStatus::kRofs;
  return SetClosed(caller, *target.object, open);
}

DafsStatus NamedAttributes::SetClosed(const Caller& caller, Object& object,
                                      const AttributeOpen& open) {
  const NameGuard guard = store_.object_locks.GuardName(object, open.name);
  size_t size = 0;
  if (open.mode == XattrMode::kCreate &&
      GetXattrSize(object, open.name, &size) == DafsStatus::kOk) {
    return DafsStatus::kExist;  // a restarted server must not mistake that value for ours
  }
  names_.Insert(NameHashOf(open.key), open.name);
  RecordIntent(caller, object, open.name, Identify(open.value), 0);
  const DafsStatus status = SetXattr(object, open.name, open.value, open.mode);
  if (status == DafsStatus::kOk) object.change().Modified();
  if (caller.operation != nullptr) caller.operation->Done(status, object.path_fd());
  return status;
}

DafsStatus NamedAttributes::Modify(const Caller& caller, const Target& target,
                                   absl::FunctionRef<DafsStatus(std::string&)> change) {
  if (target.object->fs().exported->read_only) return DafsStatus::kRofs;
  // Serialises these changes: each reads the value and sets it.
  absl::MutexLock lock(&store_.object_locks.FileLock(target.object->key()));
  std::string value;
  DafsStatus status = GetXattr(*target.object, target.name, &value);
  if (status == DafsStatus::kOk) status = change(value);
  if (status == DafsStatus::kOk) {
    status = store_.announcements.Announce(caller,
                                           {AnnouncedChange::OfAttributes(target.object->key())});
  }
  if (status == DafsStatus::kOk) {
    status = SetXattr(*target.object, target.name, value, XattrMode::kReplace);
  }
  if (status == DafsStatus::kOk) target.object->change().Modified();
  return status == DafsStatus::kNoEnt ? DafsStatus::kStale : status;
}

DafsStatus NamedAttributes::ModifyOpen(const Caller& caller, const wire::FileHandle& filehandle,
                                       const wire::StateId& state_id,
                                       absl::FunctionRef<DafsStatus(AttributeOpen&)> change) {
  if (!store_.mac.Verify(filehandle)) return DafsStatus::kBadHandle;
  return opens_.With(caller.client_id, state_id, KeyOf(filehandle), [&](AttributeOpen& open) {
    if ((open.access & wire::kShareWrite) == 0) return DafsStatus::kAcces;
    const DafsStatus status = change(open);
    if (status == DafsStatus::kOk) {
      open.changed = true;
    } else {
      open.spoilt = true;
    }
    return status;
  });
}

ReadResult NamedAttributes::Readv(const Caller& caller, const wire::FileHandle& filehandle,
                                  const wire::StateId& state_id, uint64_t offset,
                                  std::span<const iovec> into) {
  ReadResult result;
  if (state_id.is_zero()) {
    Target target;
    std::string value;
    result.status = ResolveAttribute(caller, filehandle, &target);
    if (result.status == DafsStatus::kOk) {
      result.status = GetXattr(*target.object, target.name, &value);
    }
    if (result.status == DafsStatus::kNoEnt) result.status = DafsStatus::kStale;
    return result.status == DafsStatus::kOk ? CopyOut(value, offset, into) : result;
  }
  if (!store_.mac.Verify(filehandle)) {
    result.status = DafsStatus::kBadHandle;
    return result;
  }
  result.status =
      opens_.With(caller.client_id, state_id, KeyOf(filehandle), [&](AttributeOpen& open) {
        if (!open.known || (open.access & wire::kShareRead) == 0) return DafsStatus::kAcces;
        result = CopyOut(open.value, offset, into);
        return DafsStatus::kOk;
      });
  return result;
}

// Spec gap: data written through an open takes effect at CLOSE, so it cannot be stable before
// CLOSE, whatever `stable_how` is. COMMIT makes it stable afterwards.
DafsStatus NamedAttributes::Write(const Caller& caller, const wire::FileHandle& filehandle,
                                  const wire::StateId& state_id, uint64_t offset,
                                  std::span<const iovec> from, wire::StableHow stable_how,
                                  WriteResult* res) {
  res->committed = wire::StableHow::kUnstable;
  if (const FileSystem* fs = store_.mounts->FindByFileHandle(filehandle)) {
    res->verifier = store_.write_verifier->Of(*fs);
  }
  if (!state_id.is_zero()) {
    STORE_RETURN_IF_NOT_OK(ModifyOpen(caller, filehandle, state_id, [&](AttributeOpen& open) {
      return open.known ? Overwrite(from, offset, open.value) : DafsStatus::kAcces;
    }));
  } else {
    Target target;
    STORE_RETURN_IF_NOT_OK(ResolveAttribute(caller, filehandle, &target));
    STORE_RETURN_IF_NOT_OK(
        Modify(caller, target, [&](std::string& value) { return Overwrite(from, offset, value); }));
    if (stable_how != wire::StableHow::kUnstable && CanBeSynced(*target.object)) {
      STORE_RETURN_IF_NOT_OK(Sync(*target.object));
      res->committed = stable_how;
    }
  }
  uint64_t total = 0;
  for (const iovec& v : from) total += v.iov_len;
  res->count = static_cast<uint32_t>(total);
  return DafsStatus::kOk;
}

DafsStatus NamedAttributes::Commit(const Caller& caller, const wire::CommitArgs& args,
                                   wire::CommitRes* res) {
  Target target;
  STORE_RETURN_IF_NOT_OK(Resolve(caller, args.filehandle, &target));
  res->writeverf = store_.write_verifier->Of(target.object->fs());
  return CanBeSynced(*target.object) ? Sync(*target.object) : DafsStatus::kOk;
}

DafsStatus NamedAttributes::Sync(const Object& object) {
  ScopedPrivilege privilege;
  const UniqueFd fd(open(FdPath(object.path_fd()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return StatusFromErrno();
  if (fsync(fd.get()) != 0) {  // may have reported lost data of the file itself
    const int error = errno;
    store_.write_verifier->Change();
    return StatusFromErrno(error);
  }
  return DafsStatus::kOk;
}

}  // namespace dafs::server
