// A file system inside an export, and the access to its objects by the kernel's handles.
// Spec: name_to_handle_at(2), open_by_handle_at(2).
// Functions are usable from any thread. They block on the file system, except those that only
// compute.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/files/unique_fd.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/handle.h"

namespace dafs::server {

// One file system inside one export: a mount, or a Btrfs subvolume within a mount. Its objects have
// one st_dev, except on an overlay. Lives as long as the Mounts object that owns it. After the
// export was removed it is retired, and then released: operations on `root` fail.
struct FileSystem {
  ExportRef exported;  // its options apply
  size_t export_index = 0;
  wire::FsHandle fshandle;
  // Readable: the exported directory, or the root of the mount. Not open for a subvolume within a
  // mount, where a descriptor would keep the space of a deleted subvolume. See OpenRoot.
  UniqueFd root;
  const FileSystem* outer = nullptr;  // the mount of a subvolume within it; null for others
  uint64_t subvolume = 0;             // the Btrfs subvolume's id; 0 on file systems without them
  uint64_t device = 0;                // st_dev and st_ino of the root
  uint64_t root_inode = 0;
  uint64_t mount_id = 0;
  uint64_t mount_number = 0;  // unique while the machine runs; 0: the kernel has none
  std::string path;           // for messages
  bool memory = false;        // all pages are in memory (tmpfs): a read never waits for a disk
  bool layered = false;       // an overlay: files may have the st_dev and st_ino of their layer
  bool may_hang = false;      // requests go to another process or machine: FUSE, network
  // The export was removed: no open, delegation or cached object of it may be kept. Set before the
  // store searches for those that there are. Code that adds one checks this afterwards.
  std::atomic<bool> retired = false;
  // Files and directories are known to support extended attributes; links and devices may not.
  mutable std::atomic<bool> has_xattrs = false;

  // The file system at the top of the mount; for all except subvolumes, this one.
  const FileSystem& mount() const { return outer != nullptr ? *outer : *this; }
};

// Reads the kernel's handle of an object: `name` in `dir`, or `dir` itself with "" (AT_EMPTY_PATH).
// Returns 0 or an errno; EOVERFLOW for a handle that does not fit in a filehandle.
struct KernelHandle {
  uint8_t type = 0;
  uint8_t length = 0;
  uint8_t bytes[kKernelHandleMax];
  uint64_t mount_id = 0;
};
int GetKernelHandle(int dir, const char* name, KernelHandle* handle);

// Whether an object with this statx belongs to `fs` itself.
bool IsIn(const FileSystem& fs, const struct statx& stx);

// FILE_ID of such an object: st_ino, made distinct where files of several layers have the same
// number.
uint64_t FileIdOf(const FileSystem& fs, const struct statx& stx);

// The id of the Btrfs subvolume that an object's kernel handle names; 0 on other file systems.
uint64_t SubvolumeOf(uint8_t type, std::span<const uint8_t> handle);

// Opens the root of `fs` for reading. The result is not open on failure, with errno set: ENOENT or
// ESTALE for a subvolume that was deleted. Needs privilege.
UniqueFd OpenRoot(const FileSystem& fs);

// Closes the root of a retired file system. Requests that still use the number of its descriptor
// find an object on which every operation fails. Never waits for the file system.
void ReleaseRoot(const FileSystem& fs);

// Opens `key`'s object O_PATH on `fs`. Returns the descriptor or a negative errno. Needs privilege.
int OpenKernelHandle(const FileSystem& fs, const ObjectKey& key);

}  // namespace dafs::server
