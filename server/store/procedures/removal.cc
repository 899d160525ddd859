#include "server/store/procedures/removal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>

#include "runtime/files/unique_fd.h"
#include "server/store/system/directory_reader.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/identity.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;

DafsStatus Removal::Prepare(bool check_open) {
  STORE_RETURN_IF_NOT_OK(store_.opens.CheckRemoval(key_, check_open));
  if (!store_.opens.IsOpen(key_)) {
    if (store_.grace.active() && store_.grace.expects_opens(key_)) LinkForReclaim();
    return DafsStatus::kOk;  // no client has it open
  }
  Place place;
  STORE_RETURN_IF_NOT_OK(store_.handles.Resolve(caller_, store_.mac.Seal(key_), &place));
  object_ = place.object;
  store_.opens.Pin(object_);
  struct statx stx;
  if (Statx(object_->path_fd(), &stx) == 0 && stx.stx_nlink == 1 && !object_->orphaned()) {
    // If the link fails, the pinned descriptor keeps the file.
    linked_ = store_.kept_orphans.Of(object_->fs()).Link(*object_);
  }
  return DafsStatus::kOk;
}

// No open of the file is known, but some opens may still be reclaimed. The link keeps the file
// until then.
void Removal::LinkForReclaim() {
  Place place;
  struct statx stx;
  if (store_.handles.ResolveHandle(store_.mac.Seal(key_), &place) != DafsStatus::kOk ||
      place.object == nullptr || !place.object->is_regular() ||
      Statx(place.object->path_fd(), &stx) != 0 || stx.stx_nlink > 1) {
    return;
  }
  // If the removal fails, the link is only one more name.
  store_.kept_orphans.LinkLeft(*place.object);
}

void Removal::Done(bool removed) {
  if (!removed) {
    if (linked_) store_.kept_orphans.Of(object_->fs()).Unlink(*object_);
    return;
  }
  ObjectRef object = object_ != nullptr ? object_ : store_.cache.Find(key_);
  if (object == nullptr) return;
  object->change().Modified();
  if (object->orphaned()) {
    object->set_name_removed();
    store_.open_doubts.Unnamed(key_);
  }
  struct statx stx;
  if (object_ == nullptr &&
      (Statx(object->path_fd(), &stx) != 0 || stx.stx_nlink == 0 || object->is_dir())) {
    store_.cache.Erase(key_);  // its descriptor would keep the removed object
  }
}

void RevokeForRemoval(StoreParts& store, const ObjectKey& key, bool check_open) {
  if (store.opens.CheckRemoval(key, check_open) != DafsStatus::kOk)
    store.releases.RevokeExpired(key);
}

wire::FileHandle HandleOf(StoreParts& store, const ObjectKey& key) {
  ObjectRef object = store.cache.Find(key);
  return object != nullptr ? object->handle() : store.mac.Seal(key);
}

bool IsFilledDirectory(const Object& directory, const std::string& name) {
  ScopedPrivilege privilege(Privilege::kOverFiles);  // rmdir(2) does not need to read either
  const UniqueFd fd(
      openat(directory.path_fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return false;
  DirectoryReader reader(fd.get());
  int error = 0;
  while (const dirent64* entry = reader.Next(&error)) {
    const std::string_view found = entry->d_name;
    if (found != "." && found != "..") return true;
  }
  return false;
}

DafsStatus KeyOfName(StoreParts& store, Object& directory, const std::string& name,
                     ObjectKey* key) {
  KernelHandle handle;
  if (int error = GetKernelHandle(directory.path_fd(), name.c_str(), &handle); error != 0) {
    return error == EOPNOTSUPP ? DafsStatus::kAcces : StatusFromErrno(error);
  }
  const FileSystem* fs = store.mounts->FindByKernelHandle(directory.fs(), handle);
  if (fs == nullptr) return DafsStatus::kAcces;
  *key = MakeKey(fs->fshandle, HandleKind::kFile, handle.type, {handle.bytes, handle.length});
  return DafsStatus::kOk;
}

}  // namespace dafs::server
