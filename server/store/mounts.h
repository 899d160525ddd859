// The file systems behind the exports: each export's own, and every other one mounted inside it.
// Each has an FSHandle, and a descriptor by which its handles are opened. A file system mounted
// inside an export is found by its mount id when a lookup crosses into it, or by its FSHandle when
// a client presents a handle after a restart. Its descriptor keeps it busy: it can be unmounted
// only lazily while the server runs. Spec: 4.1.4 (crossing, FSHandle). Thread-safe. May block on
// the file system.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/store/export.h"
#include "server/store/fd.h"
#include "server/store/handle.h"

namespace dafs::server {

// One mounted file system inside one export. Lives as long as the Mounts it belongs to.
struct FileSystem {
  const Export* exported = nullptr;  // whose options hold
  size_t export_index = 0;
  wire::FsHandle fshandle;
  Fd root;              // readable, at the export's directory or the mount's root
  uint64_t device = 0;  // st_dev and st_ino of `root`
  uint64_t root_inode = 0;
  uint64_t mount_id = 0;
  uint64_t mount_number = 0;  // of no other mount while the machine runs; 0: the kernel has none
  std::string path;           // for messages
  bool memory = false;        // pages are always there (tmpfs): a read never waits for a disk
  // Files and directories are known to have extended attributes; links and devices may have none.
  mutable std::atomic<bool> has_xattrs = false;
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

  // The file system with this mount id inside the export of `from`; nullptr if it cannot be served
  // (no handles) or is gone. Looks at the mount table when it is not known yet, and asks no other
  // file system, which may hang.
  const FileSystem* FindByMountId(const FileSystem& from, uint64_t mount_id);

  // The file system with this FSHandle; nullptr if there is none (any more). One that is not known
  // is looked for among those of this machine first: only one that is not there, or is the
  // network's, waits for a network file system that hangs.
  const FileSystem* FindByFsHandle(const wire::FsHandle& fshandle);

 private:
  Mounts(const std::vector<Export>& exports, const HandleMac& mac);

  using MountKey = std::pair<size_t, uint64_t>;  // export index, mount id

  absl::StatusOr<std::unique_ptr<FileSystem>> OpenFileSystem(size_t export_index,
                                                             const std::string& path,
                                                             const std::string& place) const;
  void Add(std::unique_ptr<FileSystem> fs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes up the mounts inside an export of which `wanted` is true.
  struct MountPoint;
  static std::vector<MountPoint> MountPointsBeneath(const std::string& directory);
  void Discover(size_t export_index, absl::FunctionRef<bool(const MountPoint&)> wanted)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeUp(size_t export_index, const MountPoint& point) ABSL_LOCKS_EXCLUDED(mutex_);
  const FileSystem* Known(const MountKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  const FileSystem* Known(const wire::FsHandle& fshandle) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::vector<Export>& exports_;
  const HandleMac& mac_;
  std::vector<std::string> directories_;  // of the exports, without symbolic links
  std::vector<const FileSystem*> tops_;   // by export
  std::function<void(const FileSystem&)> found_;
  absl::Mutex mutex_;  // never held while a file system is asked
  absl::flat_hash_set<MountKey> under_way_ ABSL_GUARDED_BY(mutex_);  // are being taken up
  std::vector<std::unique_ptr<FileSystem>> all_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<MountKey, const FileSystem*> by_mount_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::FsHandle, const FileSystem*> by_fshandle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
