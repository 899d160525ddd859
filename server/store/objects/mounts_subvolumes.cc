// The Btrfs subvolumes within a mount, as Mounts finds and opens them.
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "server/store/objects/export_refusal.h"
#include "server/store/objects/mounts.h"
#include "server/store/system/identity.h"

namespace dafs::server {

// Depends only on the mount and the subvolume's id, so it survives restarts of the machine, unlike
// st_dev.
wire::FsHandle Mounts::FsHandleOfSubvolume(const FileSystem& mount, uint64_t subvolume) const {
  wire::FsHandle fshandle = mount.fshandle;
  const std::string text =
      absl::StrCat("subvolume\n", wire::HexOf(mount.fshandle), "\n", subvolume);
  const auto fs_id = mac_.Identify(text);
  std::memcpy(fshandle.bytes.data() + 8, fs_id.data(), fs_id.size());
  return fshandle;
}

absl::StatusOr<std::unique_ptr<FileSystem>> Mounts::OpenSubvolume(const FileSystem& mount,
                                                                  uint64_t subvolume) const {
  auto fs = std::make_unique<FileSystem>();
  fs->exported = mount.exported;
  fs->export_index = mount.export_index;
  fs->fshandle = FsHandleOfSubvolume(mount, subvolume);
  fs->outer = &mount;
  fs->subvolume = subvolume;
  fs->mount_id = mount.mount_id;
  fs->mount_number = mount.mount_number;
  fs->may_hang = mount.may_hang;
  fs->path = absl::StrCat("subvolume ", subvolume, " in ", mount.path);
  const UniqueFd root = OpenRoot(*fs);
  struct stat st;
  if (!root.valid() || fstat(root.get(), &st) != 0) {
    return Refused(*mount.exported, fs->path, std::strerror(errno));
  }
  fs->device = st.st_dev;
  fs->root_inode = st.st_ino;
  return fs;
}

const FileSystem* Mounts::FindSubvolume(const FileSystem& mount, uint64_t subvolume) {
  if (subvolume == mount.subvolume) return &mount;
  const MountKey key{mount.export_index, mount.mount_id, subvolume};
  if (const FileSystem* known = Known(key); known != nullptr) return known;
  {
    ScopedPrivilege privilege;
    AddOnce(key, mount, [&] { return OpenSubvolume(mount, subvolume); });
  }
  return Known(key);
}

const FileSystem* Mounts::MountOfSubvolume(const wire::FsHandle& fshandle, uint64_t subvolume) {
  if (subvolume == 0) return nullptr;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& fs : all_) {
    if (fs->outer == nullptr && fs->subvolume != 0 &&
        FsHandleOfSubvolume(*fs, subvolume) == fshandle) {
      return fs.get();
    }
  }
  return nullptr;
}

}  // namespace dafs::server
