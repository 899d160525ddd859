// ACCESS, GETATTR, SETATTR, GET_FSATTR, VERIFY, NVERIFY.
// Spec: 6.5.2, 6.5.13, 6.5.14, 6.5.15, 6.5.23, 6.5.35, 6.5.36, 6.5.37; WIRE 5.
#include "server/store/procedures/attribute_procedures.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <optional>

#include "runtime/files/unique_fd.h"
#include "runtime/loop/loop.h"
#include "server/store/access/act_as.h"
#include "server/store/access/answer_promises.h"
#include "server/store/access/locks/fence_check.h"
#include "server/store/attributes/attributes.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/shared/data_access.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/statx.h"
#include "wire/messages/attributes.h"
#include "wire/protocol/header.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// The access bits that one kernel permission grants on an object of this type.
uint32_t BitsOf(int permission, bool directory) {
  switch (permission) {
    case R_OK:
      return wire::kAccessRead;
    case W_OK:
      return wire::kAccessModify | wire::kAccessExtend;
    default:
      return directory ? wire::kAccessLookup | wire::kAccessExecute : wire::kAccessExecute;
  }
}

}  // namespace

DafsStatus AttributeProcedures::Access(const Caller& caller, const wire::AccessArgs& args,
                                       wire::AccessRes* res) {
  if (IsOfAttributes(args.filehandle)) return store_.attributes.Access(caller, args, res);
  *res = {};
  if ((args.access & ~wire::kAccessAll) != 0) return DafsStatus::kInval;
  Place place;
  STORE_RETURN_IF_NOT_OK(store_.handles.Resolve(caller, args.filehandle, &place));
  const bool pseudo = place.pseudo != nullptr;
  const bool directory = pseudo || place.object->is_dir();
  // Permission to delete an object depends on its directory, so DELETE is not supported (6.5.2-08).
  if (!pseudo) STORE_RETURN_IF_NOT_OK(ActAs(caller, *place.object->fs().exported));
  for (int permission : {R_OK, W_OK, X_OK}) {
    const uint32_t bits = args.access & BitsOf(permission, directory);
    if (bits == 0) continue;
    res->supported |= bits;
    const bool read_only = pseudo || (permission == W_OK && place.object->fs().exported->read_only);
    if (permission == W_OK && read_only) continue;
    // AT_EACCESS: checks the identity entered, not the real user of the process.
    if (pseudo ||
        faccessat(place.object->path_fd(), "", permission, AT_EMPTY_PATH | AT_EACCESS) == 0) {
      res->access |= bits;
    } else if (errno != EACCES && errno != EPERM && errno != EROFS && errno != ETXTBSY) {
      return StatusFromErrno();
    }
  }
  return DafsStatus::kOk;
}

namespace {

// The object that the previous request in the chain found; null if it must be read. An object that
// was removed since still existed then.
const RecentStats::Entry* FindRecent(const Caller& caller, const wire::FileHandle& filehandle,
                                     AnswerPromises& promises) {
  if (caller.recent == nullptr) return nullptr;
  const RecentStats::Entry* known = caller.recent->Find(filehandle);
  if (known == nullptr) return nullptr;
  const Object& object = *known->object;
  if (known->is_promised) {
    promises.DependsOn(*object.fs().exported);
  } else if (promises.Attributes(object.fs(), object.key())) {
    return nullptr;  // they may have changed before they were promised
  }
  return known;
}

// The holder of a write delegation may have written data that it keeps. Raises the attributes to
// what it reports. DELAY: its answer must be awaited. Spec: 6.6.3.
DafsStatus RaiseByHolder(StoreParts& store, const Caller& caller,
                         const wire::FileHandle& filehandle, wire::FileAttributes* attributes) {
  constexpr uint64_t kRaised = wire::kFattrChange | wire::kFattrObjectSize | wire::kFattrTimeModify;
  if (caller.awaited == nullptr || (attributes->valid & kRaised) == 0) return DafsStatus::kOk;
  ReportedValues values;
  if (!store.holder_values.Reported(KeyOf(filehandle), caller.client_id, Loop::Now(),
                                    caller.awaited, &values)) {
    return DafsStatus::kDelay;
  }
  attributes->change = std::max(attributes->change, values.change.value_or(0));
  attributes->object_size = std::max(attributes->object_size, values.size.value_or(0));
  if (const auto& time = values.time_modify; time.has_value()) {
    const auto order = [](const wire::Time& t) { return std::pair(t.seconds, t.nseconds); };
    if (order(attributes->time_modify) < order(*time)) attributes->time_modify = *time;
  }
  return DafsStatus::kOk;
}

}  // namespace

DafsStatus AttributeProcedures::Getattr(const Caller& caller, const wire::FileHandle& filehandle,
                                        uint64_t bitmap, wire::FileAttributes* attributes) {
  if (store_.grace.active()) store_.grace.NoteRequest(caller);
  if (IsOfAttributes(filehandle)) {
    return store_.attributes.Getattr(caller, filehandle, bitmap, attributes);
  }
  *attributes = {};
  AnswerPromises promises(store_.announcements, caller);
  Place place;
  if (const auto* known = FindRecent(caller, filehandle, promises); known != nullptr) {
    STORE_RETURN_IF_NOT_OK(CheckFence(store_.fencing, caller, known->object->key()));
    STORE_RETURN_IF_NOT_OK(store_.object_attributes.GetAttributesFrom(
        *known->object, known->sample, known->stx, bitmap, attributes));
  } else {
    STORE_RETURN_IF_NOT_OK(store_.handles.Resolve(caller, filehandle, &place));
    if (place.pseudo != nullptr) {
      store_.object_attributes.GetPseudoAttributes(*place.pseudo, bitmap,
                                                   attributes);  // they never change
    } else {
      promises.Attributes(place.object->fs(), place.object->key());
      STORE_RETURN_IF_NOT_OK(
          store_.object_attributes.GetAttributes(*place.object, bitmap, attributes));
    }
  }
  STORE_RETURN_IF_NOT_OK(RaiseByHolder(store_, caller, filehandle, attributes));
  promises.Report(wire::kSpcondAttributes);
  return DafsStatus::kOk;
}

namespace {

// Records the intent of a SETATTR. A restarted server compares the file with it (recheck.cc).
void BeginSetattr(const Caller& caller, Object& file, const wire::FileAttributes& attributes) {
  if (caller.operation == nullptr) return;
  Intent& intent = caller.operation->Prepare();
  intent.object = file.handle();
  struct statx stx;
  if (Statx(file.path_fd(), &stx) == 0) intent.before = CtimeNs(stx);
  intent.attributes = attributes.valid;
  intent.object_size = attributes.object_size;
  intent.mode = attributes.mode;
  if (attributes.has(wire::kFattrOwner)) ParseId(attributes.owner, &intent.uid);
  if (attributes.has(wire::kFattrOwnerGroup)) ParseId(attributes.owner_group, &intent.gid);
  const wire::SetTime& access = attributes.time_access_set;
  const wire::SetTime& modify = attributes.time_modify_set;
  intent.access_time = access.client_time;
  intent.modify_time = modify.client_time;
  if (access.how == wire::TimeSetHow::kSetToServerTime) intent.flags |= Intent::kServerAccessTime;
  if (modify.how == wire::TimeSetHow::kSetToServerTime) intent.flags |= Intent::kServerModifyTime;
  caller.operation->Begin();
}

// chown(2) that changes neither owner nor group. On Linux it updates the ctime and clears set-id
// bits.
DafsStatus ChownToNobody(Object& file) {
  return fchownat(file.path_fd(), "", ~0u, ~0u, AT_EMPTY_PATH) == 0 ? DafsStatus::kOk
                                                                    : StatusFromErrno();
}

}  // namespace

DafsStatus AttributeProcedures::Setattr(const Caller& caller, const wire::FileHandle& filehandle,
                                        const wire::StateId& state_id,
                                        const wire::FileAttributes& attributes, uint64_t* bitmap) {
  if (IsOfAttributes(filehandle)) {
    return store_.attributes.Setattr(caller, filehandle, state_id, attributes, bitmap);
  }
  *bitmap = 0;
  ObjectRef file;
  STORE_RETURN_IF_NOT_OK(
      store_.handles.ResolveObject(caller, filehandle, DafsStatus::kRofs, &file));
  STORE_RETURN_IF_NOT_OK(CheckSettable(attributes));
  const bool resizes = attributes.has(wire::kFattrObjectSize);
  std::shared_ptr<const UniqueFd> size_fd;
  if (!state_id.is_zero()) {
    OpenRights rights;
    STORE_RETURN_IF_NOT_OK(
        store_.opens.Find(caller.client_id, state_id, KeyOf(filehandle), &rights));
    if (resizes && (rights.access & wire::kShareWrite) != 0 && !file->fs().exported->read_only) {
      int error = 0;
      size_fd = file->DataFd(/*write=*/true, &error);
      if (size_fd == nullptr) return StatusFromErrno(error);
    }
  }
  if (resizes && size_fd == nullptr) {
    STORE_RETURN_IF_NOT_OK(
        store_.releases.CheckDenied(KeyOf(filehandle), wire::kShareWrite, state_id));
  }
  if (store_.grace.active()) {
    const bool io = resizes || file->is_regular();
    if (io) {
      STORE_RETURN_IF_NOT_OK(store_.grace.CheckIo(caller, file->key(), !state_id.is_zero()));
    }
  }
  if (file->fs().exported->read_only) return DafsStatus::kRofs;
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *file->fs().exported));
  STORE_RETURN_IF_NOT_OK(
      store_.announcements.Announce(caller, {AnnouncedChange::OfAttributes(file->key())}));
  // Other changes of the size wait until the journal has recorded this one.
  std::optional<absl::MutexLock> lock;
  std::optional<FileChange> change;
  if (resizes) {
    lock.emplace(&store_.object_locks.AppendLock(file->key()));
    UndoChange bytes;
    STORE_RETURN_IF_NOT_OK(CheckResize(store_.persistent_locks, caller, *file, !state_id.is_zero(),
                                       attributes.object_size, &bytes));
    change.emplace(store_.exported, file->key(), bytes, /*resizes=*/true);
    STORE_RETURN_IF_NOT_OK(SaveOld(store_, caller, *file, *change));
    store_.announcements.EndLease(file->key());
  }
  BeginSetattr(caller, *file, attributes);
  const int fd = size_fd != nullptr ? size_fd->get() : -1;
  const DafsStatus status =
      attributes.valid == 0 ? ChownToNobody(*file) : ApplyAttributes(*file, attributes, fd, bitmap);
  file->change().Modified();
  if (Operation* operation = caller.operation) {
    operation->result().attributes = *bitmap;
    operation->Done(status, file->path_fd());
  }
  return status;
}

namespace {

// Everything in 6.1.6 except quotas.
constexpr uint64_t kFsattrReadable =
    wire::kFsattrAll & ~(wire::kFsattrQuotaHard | wire::kFsattrQuotaSoft | wire::kFsattrQuotaUsed);

void FillLimits(const StoreOptions& options, wire::FsAttributes* a) {
  a->lease_time = static_cast<uint32_t>(absl::ToInt64Seconds(options.lease_time));
  // The error that READDIR means by an entry without valid attributes: no search permission.
  a->rd_attr_error = static_cast<uint32_t>(DafsStatus::kAcces);
  a->supported_fattr = kFattrReadable | kFattrWritable;
  a->supported_fsattr = kFsattrReadable;
  a->max_read = options.max_read;
  a->max_write = options.max_write;
  a->max_append = options.max_append;
  a->pref_io_size = options.pref_io_size;
  a->max_file_size = INT64_MAX;
  a->fh_expire_type = wire::kFhPersistent;
  a->case_preserving = true;
  a->chown_restricted = true;
  a->homogeneous = true;
  a->no_trunc = true;
  a->unique_handle = true;
}

DafsStatus FillUsage(int fd, wire::FsAttributes* a) {
  struct statvfs usage;
  if (fstatvfs(fd, &usage) != 0) return StatusFromErrno();
  a->acl_support = wire::kAclSupportAllow | wire::kAclSupportDeny;
  a->link_support = true;
  a->symlink_support = true;
  a->can_set_time = true;
  a->max_name = static_cast<uint32_t>(usage.f_namemax);
  const long links = fpathconf(fd, _PC_LINK_MAX);
  a->max_link = links > 0 && links < INT_MAX ? static_cast<uint32_t>(links) : INT_MAX;
  a->files_total = usage.f_files;
  a->files_free = usage.f_ffree;
  a->files_available = usage.f_favail;
  a->space_total = usage.f_blocks * usage.f_frsize;
  a->space_free = usage.f_bfree * usage.f_frsize;
  a->space_available = usage.f_bavail * usage.f_frsize;
  return DafsStatus::kOk;
}

}  // namespace

DafsStatus AttributeProcedures::GetFsattr(const Caller& caller, const wire::FileHandle& filehandle,
                                          uint64_t bitmap, wire::FsAttributes* attributes) {
  *attributes = {};
  wire::FileHandle object = filehandle;
  if (IsOfAttributes(filehandle)) {
    STORE_RETURN_IF_NOT_OK(store_.attributes.ObjectHandle(filehandle, &object));
  }
  Place place;
  STORE_RETURN_IF_NOT_OK(store_.handles.Resolve(caller, object, &place));
  FillLimits(store_.options, attributes);
  if (place.pseudo != nullptr) {
    attributes->max_name = NAME_MAX;
    attributes->max_link = 1;
  } else {
    STORE_RETURN_IF_NOT_OK(FillUsage(place.object->fs().mount().root.get(), attributes));
  }
  if ((bitmap & wire::kFsattrFailoverLocations) != 0) {
    if (const std::optional<size_t> index = store_.mounts->ExportOf(filehandle.fshandle)) {
      const ExportRef exported = store_.exports.At(*index);
      const Export& now = *exported;
      attributes->failover_locations = AttributeOf(now.name, now.failover);
    }
  }
  attributes->fshandle = filehandle.fshandle;
  attributes->included = bitmap & wire::kFsattrAll;
  attributes->valid = attributes->included & kFsattrReadable;
  return DafsStatus::kOk;
}

namespace {

// Whether the valid attributes of `wanted` have the same values in `actual`.
bool SameValues(const wire::FileAttributes& wanted, const wire::FileAttributes& actual) {
  const auto same = [&](uint64_t bit, const auto& member) {
    return !wanted.has(bit) || (actual.has(bit) && wanted.*member == actual.*member);
  };
  using A = wire::FileAttributes;
  return same(wire::kFattrNamedAttr, &A::named_attr) &&
         same(wire::kFattrObjectType, &A::object_type) && same(wire::kFattrMode, &A::mode) &&
         same(wire::kFattrNumLinks, &A::num_links) && same(wire::kFattrChange, &A::change) &&
         same(wire::kFattrObjectSize, &A::object_size) && same(wire::kFattrFileId, &A::file_id) &&
         same(wire::kFattrSpaceUsed, &A::space_used) &&
         same(wire::kFattrTimeAccess, &A::time_access) &&
         same(wire::kFattrTimeCreate, &A::time_create) &&
         same(wire::kFattrTimeDelta, &A::time_delta) &&
         same(wire::kFattrTimeMetadata, &A::time_metadata) &&
         same(wire::kFattrTimeModify, &A::time_modify) && same(wire::kFattrRawDev, &A::raw_dev) &&
         same(wire::kFattrFilehandle, &A::filehandle) && same(wire::kFattrAcl, &A::acl) &&
         same(wire::kFattrOwner, &A::owner) && same(wire::kFattrOwnerGroup, &A::owner_group);
}

}  // namespace

DafsStatus AttributeProcedures::Verify(const Caller& caller, const wire::FileHandle& filehandle,
                                       const wire::FileAttributes& attributes) {
  if ((attributes.valid & ~kFattrReadable) != 0) return DafsStatus::kNotSupp;
  wire::FileAttributes actual;
  Caller unpromised = caller;  // the response contains no attributes
  unpromised.promises = nullptr;
  unpromised.awaited = nullptr;
  STORE_RETURN_IF_NOT_OK(Getattr(unpromised, filehandle, attributes.valid, &actual));
  return SameValues(attributes, actual) ? DafsStatus::kOk : DafsStatus::kNotSame;
}

DafsStatus AttributeProcedures::Nverify(const Caller& caller, const wire::FileHandle& filehandle,
                                        const wire::FileAttributes& attributes) {
  const DafsStatus status = Verify(caller, filehandle, attributes);
  if (status == DafsStatus::kOk) return DafsStatus::kSame;
  return status == DafsStatus::kNotSame ? DafsStatus::kOk : status;
}

}  // namespace dafs::server
