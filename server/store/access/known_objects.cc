#include "server/store/access/known_objects.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/store/access/return_if_not_ok.h"
#include "server/store/objects/recent_stats.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/identity.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;

bool KnownObjects::IsGenuine(const wire::FileHandle& handle) {
  if (ObjectRef object = uses_.cache.Find(KeyOf(handle)); object != nullptr) {
    return SameHandle(object->handle(), handle);
  }
  return uses_.mac.Verify(handle);
}

DafsStatus KnownObjects::Open(const wire::FileHandle& handle, ObjectRef* object) {
  *object = uses_.opens.FindObject(KeyOf(handle));
  if (*object == nullptr) return OpenByHandle(handle, object);
  *object = CacheObject(std::move(*object));
  return DafsStatus::kOk;
}

DafsStatus KnownObjects::OpenByHandle(const wire::FileHandle& handle, ObjectRef* object) {
  const FileSystem* fs = uses_.mounts.FindByFileHandle(handle);
  if (fs == nullptr || fs->retired.load()) {
    return uses_.mounts.IsRetired(handle.fshandle) ? DafsStatus::kAcces : DafsStatus::kStale;
  }
  if (uses_.mounts.IsFormerRoot(KeyOf(handle))) return DafsStatus::kStale;
  int fd = 0;
  {
    ScopedPrivilege privilege(Privilege::kOverFiles);
    fd = OpenKernelHandle(*fs, KeyOf(handle));
  }
  if (fd < 0) {
    // A genuine handle that no longer leads to an object is stale, whatever error the file system
    // returns.
    const bool resource = fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM;
    return resource ? DafsStatus::kResource : DafsStatus::kStale;
  }
  UniqueFd path(fd);
  struct statx stx;
  if (int error = Statx(fd, &stx); error != 0) return StatusFromErrno(error);
  if (stx.stx_nlink == 0) return DafsStatus::kStale;
  *object = KeepObject(*fs, handle, std::move(path), stx.stx_mode & S_IFMT);
  // Checks again: if OpenExport replaced this root meanwhile, it found nothing in the cache to
  // erase.
  if (!uses_.mounts.IsFormerRoot(KeyOf(handle))) return DafsStatus::kOk;
  uses_.cache.Erase(KeyOf(handle));
  return DafsStatus::kStale;
}

DafsStatus KnownObjects::Identify(const FileSystem& near, const UniqueFd& path,
                                  const FileSystem** fs, ObjectKey* key, ObjectRef* object) {
  KernelHandle handle;
  if (int error = GetKernelHandle(path.get(), "", &handle); error != 0) {
    return error == EOPNOTSUPP ? DafsStatus::kAcces : StatusFromErrno(error);
  }
  *fs = uses_.mounts.FindByKernelHandle(near, handle);
  if (*fs == nullptr) return DafsStatus::kAcces;
  *key = MakeKey((*fs)->fshandle, HandleKind::kFile, handle.type, {handle.bytes, handle.length});
  *object = uses_.cache.Find(*key);
  if (*object != nullptr) return DafsStatus::kOk;
  *object = uses_.opens.FindObject(*key);
  if (*object != nullptr) *object = CacheObject(std::move(*object));
  return DafsStatus::kOk;
}

DafsStatus KnownObjects::Adopt(const FileSystem& near, UniqueFd path, ObjectRef* object,
                               const Caller* keeper) {
  const FileSystem* fs = nullptr;
  ObjectKey key;
  STORE_RETURN_IF_NOT_OK(Identify(near, path, &fs, &key, object));
  if (*object != nullptr) return DafsStatus::kOk;
  const bool promised =
      KeepsStats(keeper) && uses_.announcements.GivePromise(*keeper, key, kPromisedAttributes);
  struct statx stx;
  if (int error = Statx(path.get(), &stx); error != 0) return StatusFromErrno(error);
  *object = KeepObject(*fs, uses_.mac.Seal(key), std::move(path), stx.stx_mode & S_IFMT);
  // Sample 0: it was taken before the object was known, so no modification precedes it.
  if (KeepsStats(keeper)) keeper->recent->Keep(**object, 0, stx, promised);
  return DafsStatus::kOk;
}

ObjectRef KnownObjects::CacheObject(ObjectRef object) {
  ObjectRef cached = uses_.cache.Insert(std::move(object));
  if (cached->fs().retired.load()) uses_.cache.Erase(cached->key());
  return cached;
}

ObjectRef KnownObjects::KeepObject(const FileSystem& fs, const wire::FileHandle& handle,
                                   UniqueFd path, mode_t type) {
  return CacheObject(std::make_shared<Object>(
      fs, handle, std::move(path), type, uses_.cache.descriptors(), uses_.write_verifier.era()));
}

DafsStatus KnownObjects::AdoptNewFile(const FileSystem& near, UniqueFd path, ObjectRef* object) {
  const FileSystem* fs = nullptr;
  ObjectKey key;
  STORE_RETURN_IF_NOT_OK(Identify(near, path, &fs, &key, object));
  if (*object != nullptr) return DafsStatus::kOk;
  *object = KeepObject(*fs, uses_.mac.Seal(key), std::move(path), S_IFREG);
  return DafsStatus::kOk;
}

void KnownObjects::ForgetRemoved() {
  if (!forgetting_.TryLock()) return;
  // Objects in a subvolume keep their links when the subvolume is deleted.
  absl::flat_hash_map<const FileSystem*, bool> deleted;
  const auto in_deleted_subvolume = [&](const Object& object) {
    if (object.fs().outer == nullptr) return false;
    const auto [it, added] = deleted.try_emplace(&object.fs(), false);
    if (added) it->second = !OpenRoot(object.fs()).valid() && (errno == ENOENT || errno == ESTALE);
    return it->second;
  };
  for (const ObjectRef& object : uses_.cache.Unused(next_part_++ % DescriptorCache::kParts)) {
    struct statx stx;
    const bool removed =
        in_deleted_subvolume(*object) ||
        (statx(object->path_fd(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK, &stx) == 0 &&
         stx.stx_nlink == 0);
    if (removed && !uses_.opens.IsOpen(object->key())) uses_.cache.Erase(object->key());
  }
  forgetting_.Unlock();
}

bool KnownObjects::IsGone(const wire::FileHandle& handle) {
  const FileSystem* fs = uses_.mounts.FindByFileHandle(handle);
  if (fs == nullptr || fs->retired.load() || uses_.opens.IsOpen(KeyOf(handle))) return false;
  ScopedPrivilege privilege(Privilege::kOverFiles);
  const int fd = OpenKernelHandle(*fs, KeyOf(handle));
  if (fd < 0) return fd == -ESTALE || fd == -ENOENT;
  const UniqueFd path(fd);
  struct statx stx;
  return Statx(fd, &stx) == 0 && stx.stx_nlink == 0;
}

DafsStatus KnownObjects::CheckAlive(Object& object, uint32_t nlink) {
  if (nlink != 0 || uses_.opens.FindObject(object.key()) != nullptr) return DafsStatus::kOk;
  uses_.cache.Erase(object.key());
  return DafsStatus::kStale;
}

}  // namespace dafs::server
