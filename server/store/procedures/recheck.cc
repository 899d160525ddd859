// Decides the outcome of the requests that were being executed when an earlier instance of the
// server ended: compares the intents of its journal with the file system. The table is in dafsd(8),
// EXACTLY ONCE.
// Spec: 5.2.4; docs/decisions.md, Server.
//
// A NameGuard kept the names of an intent from other requests until the journal had the outcome. So
// an object at such a name was either made by that request, or was there before it. All this runs
// with the server's own identity, before any client is served.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"
#include "server/store/attributes/attributes.h"
#include "server/store/attributes/xattrs.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/shared/data_access.h"
#include "server/store/procedures/shared/restart_check.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/identity.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::Proc;

namespace {

class Rechecker {
 public:
  Rechecker(StoreParts& store, const Intent& intent, Result& result)
      : store_(store), intent_(intent), result_(result) {}

  // CREATE, and OPEN of a name that was absent. Removes an object that did not get its attributes,
  // except a file that contains data. No client had that file open, so a local program made or
  // wrote it, and the server must not remove its data.
  bool Created() {
    ObjectRef directory = Find(intent_.directory);
    ObjectRef made = directory != nullptr ? Child(*directory, intent_.name) : nullptr;
    if (made == nullptr) return false;
    if ((intent_.flags & Intent::kUnfinished) != 0) {
      if (HasData(*made)) return false;
      const int flags = made->is_dir() ? AT_REMOVEDIR : 0;
      store_.cache.Erase(made->key());
      if (unlinkat(directory->path_fd(), intent_.name, flags) == 0) return false;
    }
    result_.object = made->handle();
    return true;
  }

  bool Linked() {
    ObjectRef directory = Find(intent_.directory);
    return directory != nullptr && Is(Child(*directory, intent_.name), intent_.object);
  }

  bool Removed() {
    ObjectRef directory = Find(intent_.directory);
    return directory == nullptr || !Is(Child(*directory, intent_.name), intent_.object);
  }

  bool Renamed() {
    ObjectRef source = Find(intent_.directory);
    ObjectRef target = Find(intent_.new_directory);
    return source != nullptr && target != nullptr &&
           !Is(Child(*source, intent_.name), intent_.object) &&
           Is(Child(*target, intent_.new_name), intent_.object);
  }

  bool Truncated() {
    struct statx stx;
    ObjectRef file = Find(intent_.object);
    return file != nullptr && Stat(*file, &stx) && stx.stx_size == 0;
  }

  // If bytes were moved, the size shows it. The client repeats any other mode.
  bool Allocated() {
    struct statx stx;
    ObjectRef file = Find(intent_.object);
    return (intent_.flags & Intent::kMoves) != 0 && file != nullptr && Stat(*file, &stx) &&
           stx.stx_size == intent_.object_size;
  }

  // The named attribute was removed, or has its new value.
  bool AttributeRemoved() { return AttributeValue() == std::nullopt; }
  bool AttributeSet() {
    const std::optional<std::string> value = AttributeValue();
    return value.has_value() && store_.attributes.Identify(*value) == intent_.value;
  }

  // Afterwards the file contains all of the data or none of it.
  bool Appended() {
    ObjectRef file = Find(intent_.object);
    int error = 0;
    std::shared_ptr<const UniqueFd> fd;
    if (file != nullptr) fd = AppendFd(*file, &error);
    struct stat st;
    if (fd != nullptr && fstat(fd->get(), &st) != 0) error = errno;
    if (error != 0) Note(StatusFromErrno(error));
    if (fd == nullptr || error != 0) return false;
    const auto size = static_cast<uint64_t>(st.st_size);
    // A power failure can leave the size of data that was never written. With Stable::kPower the
    // data is therefore cut off, and the client appends it again.
    const bool certain = store_.options.stable == Stable::kProcess;
    if (certain && size == intent_.size + intent_.length && intent_.length > 0) {
      if (fsync(fd->get()) == 0) return true;
      store_.write_verifier->Change();
    }
    if (size > intent_.size && ftruncate(fd->get(), static_cast<off_t>(intent_.size)) == 0) {
      fsync(fd->get());
    }
    return false;
  }

  // Whether every attribute has its new value. If not, the client sets all of them again, which
  // does no harm.
  bool AttributesSet() {
    struct statx stx;
    ObjectRef file = Find(intent_.object);
    if (file == nullptr || !Stat(*file, &stx)) return false;
    const auto set = [&](uint64_t bit) { return (intent_.attributes & bit) != 0; };
    const auto is_time = [&](uint32_t server, const statx_timestamp& now, const wire::Time& then) {
      if ((intent_.flags & server) != 0) return CtimeNs(stx) != intent_.before;
      return now.tv_sec == then.seconds && now.tv_nsec == then.nseconds;
    };
    if ((intent_.attributes & ~kFattrCompared) != 0) return false;
    if (set(wire::kFattrObjectSize) && stx.stx_size != intent_.object_size) return false;
    if (set(wire::kFattrMode) && (stx.stx_mode & wire::kModeBits) != intent_.mode) return false;
    if (set(wire::kFattrOwner) && stx.stx_uid != intent_.uid) return false;
    if (set(wire::kFattrOwnerGroup) && stx.stx_gid != intent_.gid) return false;
    if (set(wire::kFattrTimeAccessSet) &&
        !is_time(Intent::kServerAccessTime, stx.stx_atime, intent_.access_time)) {
      return false;
    }
    return !set(wire::kFattrTimeModifySet) ||
           is_time(Intent::kServerModifyTime, stx.stx_mtime, intent_.modify_time);
  }

  // Fills in the CHANGE of the directories where the journal lacks it.
  void Complete() {
    const bool attribute = (intent_.flags & Intent::kOfAttribute) != 0;
    if (result_.after == 0) {
      result_.after = ChangeNow(attribute ? intent_.object : intent_.directory);
    }
    if (result_.new_after == 0) result_.new_after = ChangeNow(intent_.new_directory);
  }

  // The first error after which the file system may still contain the object; kOk if none.
  DafsStatus failure() const { return failure_; }

 private:
  static constexpr uint64_t kFattrCompared = wire::kFattrObjectSize | wire::kFattrMode |
                                             wire::kFattrOwner | wire::kFattrOwnerGroup |
                                             wire::kFattrTimeAccessSet | wire::kFattrTimeModifySet;

  ObjectRef Find(const wire::FileHandle& handle) {
    Place place;
    const DafsStatus status = store_.handles.ResolveHandle(handle, &place);
    Note(status);
    return status == DafsStatus::kOk ? place.object : nullptr;
  }

  // Remembers an answer of the file system that shows neither that something exists nor that it
  // does not: descriptors or memory are short, or a cluster file system has not recovered yet.
  void Note(DafsStatus status) {
    switch (status) {
      case DafsStatus::kOk:
      case DafsStatus::kNoEnt:
      case DafsStatus::kNotDir:
      case DafsStatus::kStale:
      case DafsStatus::kBadHandle:
      case DafsStatus::kNotSupp:
      case DafsStatus::kAcces:  // a mounted file system covers the name
      case DafsStatus::kNameTooLong:
        return;
      default:
        if (failure_ == DafsStatus::kOk) failure_ = status;
    }
  }

  bool Stat(const Object& object, struct statx* stx) {
    const int error = Statx(object.path_fd(), stx);
    if (error != 0) Note(StatusFromErrno(error));
    return error == 0;
  }

  // Whether a file that was being created has a size that the creation alone does not give it. If
  // the size cannot be read, the file counts as one with data, which must not be removed.
  bool HasData(const Object& made) {
    if (!made.is_regular()) return false;
    struct statx stx;
    return !Stat(made, &stx) || (stx.stx_size != 0 && stx.stx_size != intent_.object_size);
  }

  ObjectRef Child(Object& directory, const char* name) {
    ObjectRef child;
    const DafsStatus status = store_.lookups.LookupName(directory, name, &child);
    Note(status);
    return status == DafsStatus::kOk ? child : nullptr;
  }

  std::optional<std::string> AttributeValue() {
    ScopedPrivilege privilege;
    ObjectRef object = Find(intent_.object);
    if (object == nullptr) return std::nullopt;
    std::string value;
    const DafsStatus status = GetXattr(*object, intent_.name, &value);
    Note(status);
    return status == DafsStatus::kOk ? std::optional(value) : std::nullopt;
  }

  static bool Is(const ObjectRef& object, const wire::FileHandle& handle) {
    return object != nullptr && object->key() == KeyOf(handle);
  }

  uint64_t ChangeNow(const wire::FileHandle& directory) {
    ObjectRef object = directory == wire::FileHandle() ? nullptr : Find(directory);
    return object != nullptr ? ChangeOf(*object) : 0;
  }

  StoreParts& store_;
  const Intent& intent_;
  Result& result_;
  DafsStatus failure_ = DafsStatus::kOk;
};

bool Executed(Proc procedure, const Intent& intent, Rechecker& recheck) {
  switch (procedure) {
    case Proc::kCreate:
    case Proc::kMakeNode:
      return recheck.Created();
    case Proc::kOpen:
      return (intent.flags & Intent::kTruncates) != 0 ? recheck.Truncated() : recheck.Created();
    case Proc::kLink:
      return recheck.Linked();
    case Proc::kRemove:
      return (intent.flags & Intent::kOfAttribute) != 0 ? recheck.AttributeRemoved()
                                                        : recheck.Removed();
    case Proc::kRename:
    case Proc::kRename2:
      return recheck.Renamed();
    case Proc::kAppendInline:
    case Proc::kAppendDirect:
      return recheck.Appended();
    case Proc::kSetattrInline:
    case Proc::kSetattrDirect:
      return recheck.AttributesSet();
    case Proc::kAllocate:
      return recheck.Allocated();
    case Proc::kClose:
      // No open outlives the server. The CLOSE of a named attribute counts once its value is set.
      return (intent.flags & Intent::kOfAttribute) == 0 || recheck.AttributeSet();
    default:
      return false;  // a WRITE without a recorded outcome is written again
  }
}

}  // namespace

bool RestartCheck::Recheck(Proc procedure, const Intent& intent, absl::Time deadline,
                           Result* result) {
  constexpr absl::Duration kFirstPause = absl::Milliseconds(10);
  constexpr absl::Duration kLongestPause = absl::Seconds(1);
  RestoreOwnIdentity();
  for (absl::Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    *result = Result(intent);
    Rechecker recheck(store_, intent, *result);
    const bool executed = Executed(procedure, intent, recheck);
    if (recheck.failure() == DafsStatus::kOk) {
      if (executed) recheck.Complete();
      return executed;
    }
    if (absl::Now() + pause > deadline) {
      LogWarning(absl::StrFormat(
          "%s of '%s': the file system cannot show whether it was executed before the restart: %s; "
          "it counts as not executed, so the client sends it again",
          wire::Name(procedure), absl::Utf8SafeCHexEscape(intent.name),
          wire::Name(recheck.failure())));
      return false;
    }
    absl::SleepFor(pause);
  }
}

void RestartCheck::Complete(const Intent& intent, Result* result) {
  RestoreOwnIdentity();
  Rechecker(store_, intent, *result).Complete();
}

}  // namespace dafs::server
