// How Mounts opens the file system at a path, and the errors if it cannot be served.
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "server/store/objects/export_refusal.h"
#include "server/store/objects/mount_types.h"
#include "server/store/objects/mounts.h"

#ifndef STATX_MNT_ID_UNIQUE  // Linux 6.8
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

namespace dafs::server {
namespace {

// Opens a directory by a path without symbolic links. Fails with ELOOP if it has one by now.
int OpenDirectory(const std::string& path, uint64_t access) {
  open_how how = {};
  how.flags = access | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  return static_cast<int>(syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how));
}

// Why OpenDirectory failed, with the remedy.
std::string WhyNotOpened(int error) {
  if (error == ENOSYS) {
    return "openat2(2) is missing; dafsd needs Linux 5.6, and a container that permits the call";
  }
  if (error == ELOOP) {
    return "a symbolic link has replaced a directory of this path just now; try again";
  }
  return std::strerror(error);
}

uint64_t MountNumber(int fd) {
  struct statx stx;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID_UNIQUE, &stx) != 0) return 0;
  return (stx.stx_mask & STATX_MNT_ID_UNIQUE) != 0 ? stx.stx_mnt_id : 0;
}

}  // namespace

// `place` is the mount point relative to the export. It distinguishes two mounts of one file
// system, which may differ in their options.
absl::StatusOr<std::unique_ptr<FileSystem>> Mounts::OpenFileSystem(size_t export_index,
                                                                   const std::string& path,
                                                                   const std::string& place,
                                                                   const ExportId& id) const {
  const Export& exported = exports_[export_index];
  auto fs = std::make_unique<FileSystem>();
  fs->exported = exports_.At(export_index);
  fs->export_index = export_index;
  fs->path = path;
  const UniqueFd place_fd(OpenDirectory(path, O_PATH));
  if (!place_fd.valid()) return Refused(exported, path, WhyNotOpened(errno));
  const std::string type = TypeOfFileSystem(place_fd.get());
  fs->may_hang = !type.empty() && !IsLocal(type);
  if (!exported.lasting_handles && !KeepsHandles(type)) {
    return Refused(
        exported, path,
        absl::StrCat("its file system (", type,
                     ") is not known to keep file handles, without which every mount "
                     "becomes stale; give the export option handles=lasting if it does"));
  }
  fs->root = UniqueFd(OpenDirectory(path, O_RDONLY));
  if (!fs->root.valid()) return Refused(exported, path, WhyNotOpened(errno));
  KernelHandle handle;
  if (int error = GetKernelHandle(fs->root.get(), "", &handle); error != 0) {
    return NoHandles(exported, path, error);
  }
  struct stat st;
  if (fstat(fs->root.get(), &st) != 0) return Refused(exported, path, std::strerror(errno));
  fs->device = st.st_dev;
  fs->root_inode = st.st_ino;
  fs->mount_id = handle.mount_id;
  fs->subvolume = SubvolumeOf(handle.type, {handle.bytes, handle.length});
  fs->mount_number = MountNumber(fs->root.get());
  struct statfs stats;
  if (fstatfs(fs->root.get(), &stats) != 0) return Refused(exported, path, std::strerror(errno));
  fs->layered = stats.f_type == OVERLAYFS_SUPER_MAGIC;
  fs->memory = stats.f_type == TMPFS_MAGIC || stats.f_type == RAMFS_MAGIC;
  int fsid[2];
  static_assert(sizeof fsid == sizeof stats.f_fsid);
  std::memcpy(fsid, &stats.f_fsid, sizeof fsid);
  const auto fs_id = mac_.Identify(absl::StrCat("fs\n", fsid[0], "\n", fsid[1], "\n", place));
  std::memcpy(fs->fshandle.bytes.data(), id.data(), id.size());
  std::memcpy(fs->fshandle.bytes.data() + 8, fs_id.data(), 8);
  // Checks that the handle can be opened again; otherwise it is useless.
  const ObjectKey key =
      MakeKey(fs->fshandle, HandleKind::kFile, handle.type, {handle.bytes, handle.length});
  UniqueFd again(OpenKernelHandle(*fs, key));
  if (!again.valid()) return NoHandles(exported, path, -again.get());
  return fs;
}

}  // namespace dafs::server
