// The file systems behind the exports: each export's own, every other one mounted inside it, and
// the Btrfs subvolumes within these mounts. Each has an FSHandle, so that objects with one FSHandle
// have distinct inode numbers. A mount is found by its mount id when a lookup crosses into it, and
// a subvolume by the kernel's handle of the object; both are found by the filehandle that a client
// presents after a restart. The descriptor of a mount keeps it busy: it can be unmounted only
// lazily while the server runs. Spec: 4.1.4 (crossing, FSHandle). Thread-safe. May block on the
// file system.
#pragma once

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/store/objects/export.h"
#include "server/store/objects/handle.h"
#include "server/store/system/fd.h"

namespace dafs::server {

// One file system inside one export: a mount, or a Btrfs subvolume within a mount. Its objects have
// one st_dev, except those of an overlay. Lives as long as the Mounts it belongs to.
struct FileSystem {
  const Export* exported = nullptr;  // whose options hold
  size_t export_index = 0;
  wire::FsHandle fshandle;
  // Readable, at the export's directory or the mount's root. Not open for a subvolume within a
  // mount: a descriptor would keep the space of a subvolume that was deleted. See OpenRoot.
  Fd root;
  const FileSystem* outer = nullptr;  // of a subvolume within a mount: the mount's; null for others
  uint64_t subvolume = 0;             // the Btrfs subvolume's id; 0 on file systems without them
  uint64_t device = 0;                // st_dev and st_ino of the root
  uint64_t root_inode = 0;
  uint64_t mount_id = 0;
  uint64_t mount_number = 0;  // of no other mount while the machine runs; 0: the kernel has none
  std::string path;           // for messages
  bool memory = false;        // pages are always there (tmpfs): a read never waits for a disk
  bool layered = false;       // an overlay: files may have the st_dev and st_ino of their layer
  bool may_hang = false;      // another process or machine must answer: FUSE, network
  // Files and directories are known to have extended attributes; links and devices may have none.
  mutable std::atomic<bool> has_xattrs = false;

  // The file system at the top of the mount, itself for all but subvolumes.
  const FileSystem& mount() const { return outer != nullptr ? *outer : *this; }
};

// The kernel's handle of an object: `name` in `dir`, or `dir` itself with "" (AT_EMPTY_PATH).
// On success *type, *bytes (kKernelHandleMax), *length and *mount_id hold it. Returns 0 or an
// errno; EOVERFLOW for a handle that does not fit a filehandle.
struct KernelHandle {
  uint8_t type = 0;
  uint8_t length = 0;
  uint8_t bytes[kKernelHandleMax];
  uint64_t mount_id = 0;
};
int GetKernelHandle(int dir, const char* name, KernelHandle* handle);

// Whether what statx says is of an object of `fs` itself.
bool IsIn(const FileSystem& fs, const struct statx& stx);

// FILE_ID of such an object: st_ino, made distinct where files of several layers have one number.
uint64_t FileIdOf(const FileSystem& fs, const struct statx& stx);

// The id of the Btrfs subvolume that an object's kernel handle names; 0 on other file systems.
uint64_t SubvolumeOf(uint8_t type, std::span<const uint8_t> handle);

// Opens the root of `fs` for reading. The result is not open on failure, with errno set: ENOENT or
// ESTALE for a subvolume that was deleted. Needs privilege.
Fd OpenRoot(const FileSystem& fs);

// Opens `key`'s object O_PATH on `fs`. Returns the descriptor or a negative errno. Needs privilege.
int OpenKernelHandle(const FileSystem& fs, const ObjectKey& key);

class Mounts {
 public:
  // Opens the directory of every export and checks that its files have handles that fit.
  // `exports` and `mac` outlive this. Errors name the export, the reason and the remedy.
  static absl::StatusOr<std::unique_ptr<Mounts>> Open(const std::vector<Export>& exports,
                                                      const HandleMac& mac);

  // `found` is called for each file system inside an export before anybody can come to it, from
  // any thread, for several at once. Before the first request.
  void OnFound(std::function<void(const FileSystem&)> found) { found_ = std::move(found); }
  // Finds those whose root has an entry `name` now; the others when somebody comes to them. Needs
  // privilege.
  void FindWith(const char* name);

  // The file system at the top of an export.
  const FileSystem& Top(size_t export_index) const { return *tops_[export_index]; }
  // Whether the path of an export leads to another directory than Top, which is served all the
  // same: logged when that changes. Needs privilege.
  void CheckPath(size_t export_index);

  // The export of objects with this FSHandle, by its index; nothing if it is of none.
  std::optional<size_t> ExportOf(const wire::FsHandle& fshandle) const;

  // The export of objects with this FSHandle if a file system in it may hang, by its index. Cheap
  // where there is no such export; never blocks. The FSHandle need not be genuine.
  std::optional<size_t> ExportThatMayHang(const wire::FsHandle& fshandle) const;
  bool any_may_hang() const { return any_may_hang_.load(std::memory_order_relaxed); }

  // Whether the directory behind `fd` is the root of a file system that is known, by any export.
  bool IsRoot(int fd) const;

  // The file system of the object with this kernel handle inside the export of `from`; nullptr if
  // it cannot be served (no handles) or is gone. Looks at the mount table when the mount is not
  // known yet, and asks no other file system, which may hang.
  const FileSystem* FindByKernelHandle(const FileSystem& from, const KernelHandle& handle);

  // The file system of a genuine filehandle; nullptr if there is none (any more). One that is not
  // known is looked for among those of this machine first: only one that is not there, or is the
  // network's, waits for a network file system that hangs.
  const FileSystem* FindByFileHandle(const wire::FileHandle& filehandle);
  // The same by what the filehandle says of it.
  const FileSystem* Find(const wire::FsHandle& fshandle, uint64_t subvolume);
  // Whether a known mount has, or had, a subvolume of this number with this FSHandle.
  bool HasMountOf(const wire::FsHandle& fshandle, uint64_t subvolume) {
    return MountOfSubvolume(fshandle, subvolume) != nullptr;
  }

 private:
  Mounts(const std::vector<Export>& exports, const HandleMac& mac);

  // Export index, mount id, subvolume within the mount (0: the mount itself).
  using MountKey = std::tuple<size_t, uint64_t, uint64_t>;

  absl::StatusOr<std::unique_ptr<FileSystem>> OpenFileSystem(size_t export_index,
                                                             const std::string& path,
                                                             const std::string& place) const;
  void NoteMayHang(size_t export_index);
  void Add(std::unique_ptr<FileSystem> fs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes up the mounts inside an export of which `wanted` is true.
  struct MountPoint;
  static std::vector<MountPoint> MountPointsBeneath(const std::string& directory);
  void Discover(size_t export_index, absl::FunctionRef<bool(const MountPoint&)> wanted)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeUp(size_t export_index, const MountPoint& point) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds what `open` returns under `key`, once; other threads that want it wait.
  void AddOnce(const MountKey& key,
               absl::FunctionRef<absl::StatusOr<std::unique_ptr<FileSystem>>()> open)
      ABSL_LOCKS_EXCLUDED(mutex_);
  wire::FsHandle FsHandleOfSubvolume(const FileSystem& mount, uint64_t subvolume) const;
  const FileSystem* FindSubvolume(const FileSystem& mount, uint64_t subvolume)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::unique_ptr<FileSystem>> OpenSubvolume(const FileSystem& mount,
                                                            uint64_t subvolume) const;
  // The known mount whose subvolume has this FSHandle; nullptr if there is none.
  const FileSystem* MountOfSubvolume(const wire::FsHandle& fshandle, uint64_t subvolume)
      ABSL_LOCKS_EXCLUDED(mutex_);
  const FileSystem* Known(const MountKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  const FileSystem* Known(const wire::FsHandle& fshandle) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::vector<Export>& exports_;
  const HandleMac& mac_;
  std::vector<std::string> directories_;    // of the exports, without symbolic links
  using ExportId = std::array<uint8_t, 8>;  // what the FSHandles of an export begin with
  std::vector<ExportId> ids_;               // by export
  // By export, and whether any is set; they publish nothing but themselves.
  std::vector<std::atomic<bool>> may_hang_;
  std::atomic<bool> any_may_hang_ = false;
  std::vector<const FileSystem*> tops_;   // by export
  std::vector<std::atomic<bool>> moved_;  // by export, see CheckPath; publish nothing
  std::function<void(const FileSystem&)> found_;
  mutable absl::Mutex mutex_;  // never held while a file system is asked
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> roots_
      ABSL_GUARDED_BY(mutex_);                                       // st_dev, st_ino
  absl::flat_hash_set<MountKey> under_way_ ABSL_GUARDED_BY(mutex_);  // are being taken up
  std::vector<std::unique_ptr<FileSystem>> all_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<MountKey, const FileSystem*> by_mount_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::FsHandle, const FileSystem*> by_fshandle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
