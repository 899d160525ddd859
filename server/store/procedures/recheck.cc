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

#include <optional>
#include <string>

#include "runtime/files/unique_fd.h"
#include "server/store/attributes/attributes.h"
#include "server/store/attributes/xattrs.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/shared/data_access.h"
#include "server/store/procedures/shared/restart_check.h"
#include "server/store/system/identity.h"

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
    return file != nullptr && Statx(file->path_fd(), &stx) == 0 && stx.stx_size == 0;
  }

  // If bytes were moved, the size shows it. The client repeats any other mode.
  bool Allocated() {
    struct statx stx;
    ObjectRef file = Find(intent_.object);
    return (intent_.flags & Intent::kMoves) != 0 && file != nullptr &&
           Statx(file->path_fd(), &stx) == 0 && stx.stx_size == intent_.object_size;
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
    if (fd == nullptr || fstat(fd->get(), &st) != 0) return false;
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
    if (file == nullptr || Statx(file->path_fd(), &stx) != 0) return false;
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

 private:
  static constexpr uint64_t kFattrCompared = wire::kFattrObjectSize | wire::kFattrMode |
                                             wire::kFattrOwner | wire::kFattrOwnerGroup |
                                             wire::kFattrTimeAccessSet | wire::kFattrTimeModifySet;

  ObjectRef Find(const wire::FileHandle& handle) {
    Place place;
    if (store_.handles.ResolveHandle(handle, &place) != DafsStatus::kOk) return nullptr;
    return place.object;
  }

  // Whether a file that was being created has a size that the creation alone does not give it.
  bool HasData(const Object& made) const {
    struct statx stx;
    return made.is_regular() && Statx(made.path_fd(), &stx) == 0 && stx.stx_size != 0 &&
           stx.stx_size != intent_.object_size;
  }

  ObjectRef Child(Object& directory, const char* name) {
    ObjectRef child;
    if (store_.lookups.LookupName(directory, name, &child) != DafsStatus::kOk) return nullptr;
    return child;
  }

  std::optional<std::string> AttributeValue() {
    ScopedPrivilege privilege;
    ObjectRef object = Find(intent_.object);
    std::string value;
    if (object == nullptr || GetXattr(*object, intent_.name, &value) != DafsStatus::kOk) {
      return std::nullopt;
    }
    return value;
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
};

}  // namespace

bool RestartCheck::Recheck(Proc procedure, const Intent& intent, Result* result) {
  RestoreOwnIdentity();
  *result = Result(intent);
  Rechecker recheck(store_, intent, *result);
  bool executed = false;
  switch (procedure) {
    case Proc::kCreate:
    case Proc::kMakeNode:
      executed = recheck.Created();
      break;
    case Proc::kOpen:
      executed = (intent.flags & Intent::kTruncates) != 0 ? recheck.Truncated() : recheck.Created();
      break;
    case Proc::kLink:
      executed = recheck.Linked();
      break;
    case Proc::kRemove:
      executed = (intent.flags & Intent::kOfAttribute) != 0 ? recheck.AttributeRemoved()
                                                            : recheck.Removed();
      break;
    case Proc::kRename:
    case Proc::kRename2:
      executed = recheck.Renamed();
      break;
    case Proc::kAppendInline:
    case Proc::kAppendDirect:
      executed = recheck.Appended();
      break;
    case Proc::kSetattrInline:
    case Proc::kSetattrDirect:
      executed = recheck.AttributesSet();
      break;
    case Proc::kAllocate:
      executed = recheck.Allocated();
      break;
    case Proc::kClose:
      // No open outlives the server. The CLOSE of a named attribute counts once its value is set.
      executed = (intent.flags & Intent::kOfAttribute) == 0 || recheck.AttributeSet();
      break;
    default:
      break;  // a WRITE without a recorded outcome is written again
  }
  if (executed) recheck.Complete();
  return executed;
}

void RestartCheck::Complete(const Intent& intent, Result* result) {
  RestoreOwnIdentity();
  Rechecker(store_, intent, *result).Complete();
}

}  // namespace dafs::server
