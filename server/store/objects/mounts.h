// The file systems of the exports: that of each exported directory, all that are mounted inside it,
// and the Btrfs subvolumes within these mounts. Each has an FSHandle, so that objects with one
// FSHandle have distinct inode numbers.
//
// A lookup that crosses into a mount finds it by its mount id, and a subvolume by the kernel's
// handle of the object. A filehandle that a client presents after a restart finds both. The
// server's descriptor of a mount keeps it busy: until its export is removed, the mount can only be
// unmounted lazily.
// Spec: 4.1.4 (crossing, FSHandle).
// Thread-safe. May block on the file system.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
#include "server/store/objects/export_set.h"
#include "server/store/objects/file_system.h"
#include "server/store/objects/handle.h"

namespace dafs::server {

// The directory that an export leads to. Never changes and lives as long as the Mounts object, so
// that requests may use it while the export gets another one.
struct ExportRoot {
  std::string directory;        // the export's path without symbolic links
  std::array<uint8_t, 8> id{};  // the first bytes of the FSHandles in it
  const FileSystem* top = nullptr;
  wire::FileHandle handle;
};

class Mounts {
 public:
  // No export is open yet. `exports` and `mac` outlive this.
  Mounts(const ExportSet& exports, const HandleMac& mac);

  // A directory that Open has opened and Serve takes.
  struct Opened {
    ExportRoot root;
    std::unique_ptr<FileSystem> top;
    bool may_hang = false;  // a file system in it
  };
  // Opens the directory to which the path of an export leads now, and checks that its files have
  // handles that fit. Errors name the export, the reason and the remedy. Needs privilege.
  absl::StatusOr<Opened> Open(size_t export_index);
  // From now on the export leads to this directory. The handle of the directory before is stale
  // from now on; those of files in it stay valid. Returns the root that it replaces, if any. One
  // thread at a time for each export.
  const ExportRoot* Serve(size_t export_index, Opened opened);

  // The export was removed: retires its file systems and returns them. From now on none is found in
  // it, until Serve gives it a directory again. The caller drops the objects of the file systems,
  // and then calls ReleaseRoot for each. Never blocks on a file system.
  std::vector<const FileSystem*> Retire(size_t export_index) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether objects with this FSHandle are in an export whose file systems are retired.
  bool IsRetired(const wire::FsHandle& fshandle) const;

  // Sets a function that is called for each file system found inside an export, before any request
  // uses the file system. The calls come from any thread, several at once. Set it before the first
  // request.
  void OnFound(std::function<void(const FileSystem&)> found) { found_ = std::move(found); }
  // Finds the local file systems (neither network nor FUSE) of an export whose root has an entry
  // `name`. All others are found when a request reaches them. Needs privilege.
  void FindWith(size_t export_index, const char* name);

  // The directory of an export; null if it is not open yet. Cheap.
  const ExportRoot* Root(size_t export_index) const {
    return served_.load(std::memory_order_acquire)->roots[export_index];
  }
  // Where the path of an export leads now, compared with Root.
  enum class Leads : uint8_t { kToRoot, kElsewhere, kNowhere };
  // Requests no attributes from the file system at the end of the path. Needs privilege.
  Leads WhereLeads(size_t export_index) const;
  // Whether the path leads to a file system that may hang. The same.
  bool LeadsToWhatMayHang(size_t export_index) const;
  // Calls `use` for each known file system of an export that is not retired.
  void ForEachIn(size_t export_index, absl::FunctionRef<void(const FileSystem&)> use) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether `key` is the handle of a directory that an export led to and no longer does.
  bool IsFormerRoot(const ObjectKey& key) const;

  // The index of the export of objects with this FSHandle; nullopt if there is none.
  std::optional<size_t> ExportOf(const wire::FsHandle& fshandle) const;

  // The index of the export of objects with this FSHandle, if a file system in it may hang. Cheap
  // if no export may hang; never blocks. The FSHandle need not be genuine.
  std::optional<size_t> ExportThatMayHang(const wire::FsHandle& fshandle) const;
  bool MayHang(size_t export_index) const {
    return may_hang_[export_index].load(std::memory_order_relaxed);
  }
  // Records that a file system in the export may hang. Serve records that by itself. The first
  // Serve of an export decides, whatever was recorded before it.
  void NoteMayHang(size_t export_index) { SetMayHang(export_index, true); }
  bool any_may_hang() const { return may_hang_count_.load(std::memory_order_relaxed) != 0; }

  // Whether the directory `fd` is the root of a known file system, of any export.
  bool IsRoot(int fd) const;

  // The file system of the object with this kernel handle inside the export of `from`. Returns
  // nullptr if it cannot be served (no handles) or no longer exists. For an unknown mount, reads
  // the mount table and sends requests to no other file system, which may hang.
  const FileSystem* FindByKernelHandle(const FileSystem& from, const KernelHandle& handle);

  // The file system of a genuine filehandle; nullptr if it does not exist or no longer exists.
  // Searches for an unknown one among the local file systems first. So a network file system that
  // hangs delays only requests for network or missing file systems.
  const FileSystem* FindByFileHandle(const wire::FileHandle& filehandle);
  // The same from the parts of a filehandle.
  const FileSystem* Find(const wire::FsHandle& fshandle, uint64_t subvolume);
  // Whether a known mount has, or had, a subvolume with this number and FSHandle.
  bool HasMountOf(const wire::FsHandle& fshandle, uint64_t subvolume) {
    return MountOfSubvolume(fshandle, subvolume) != nullptr;
  }

 private:
  // Export index, mount id, subvolume within the mount (0: the mount itself).
  using MountKey = std::tuple<size_t, uint64_t, uint64_t>;
  using ExportId = std::array<uint8_t, 8>;
  // All requests read this. Replaced as a whole when an export gets a directory.
  struct Served {
    // Of all directories that exports have led to: a file in a former one may still be open.
    std::vector<std::pair<ExportId, size_t>> ids;
    std::vector<const ExportRoot*> roots;  // by export
  };

  absl::StatusOr<std::unique_ptr<FileSystem>> OpenFileSystem(size_t export_index,
                                                             const std::string& path,
                                                             const std::string& place,
                                                             const ExportId& id) const;
  void SetMayHang(size_t export_index, bool may_hang);
  void Add(std::unique_ptr<FileSystem> fs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Opens the mounts inside an export for which `wanted` is true.
  struct MountPoint;
  static std::vector<MountPoint> MountPointsBeneath(const std::string& directory);
  void Discover(size_t export_index, absl::FunctionRef<bool(const MountPoint&)> wanted)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeUp(const ExportRoot& root, const MountPoint& point) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds the result of `open` under `key`, once, unless `within` is retired meanwhile. Other
  // threads that need the key wait.
  void AddOnce(const MountKey& key, const FileSystem& within,
               absl::FunctionRef<absl::StatusOr<std::unique_ptr<FileSystem>>()> open)
      ABSL_LOCKS_EXCLUDED(mutex_);
  wire::FsHandle FsHandleOfSubvolume(const FileSystem& mount, uint64_t subvolume) const;
  const FileSystem* FindSubvolume(const FileSystem& mount, uint64_t subvolume)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::unique_ptr<FileSystem>> OpenSubvolume(const FileSystem& mount,
                                                            uint64_t subvolume) const;
  // The known mount that contains the subvolume with this FSHandle; nullptr if there is none.
  const FileSystem* MountOfSubvolume(const wire::FsHandle& fshandle, uint64_t subvolume)
      ABSL_LOCKS_EXCLUDED(mutex_);
  const FileSystem* Known(const MountKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  const FileSystem* Known(const wire::FsHandle& fshandle) ABSL_LOCKS_EXCLUDED(mutex_);

  const ExportSet& exports_;
  const HandleMac& mac_;
  // Publishes the newest of all_served_.
  std::atomic<const Served*> served_;
  // By export, and how many are set. They publish no other data.
  std::vector<std::atomic<bool>> may_hang_;
  std::atomic<int> may_hang_count_ = 0;
  std::function<void(const FileSystem&)> found_;
  mutable absl::Mutex mutex_;  // never held during a file system call
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> roots_
      ABSL_GUARDED_BY(mutex_);                                       // st_dev, st_ino
  absl::flat_hash_set<MountKey> under_way_ ABSL_GUARDED_BY(mutex_);  // being opened by AddOnce
  std::vector<std::unique_ptr<FileSystem>> all_ ABSL_GUARDED_BY(mutex_);
  // Objects that requests still use may refer to them.
  std::vector<std::unique_ptr<FileSystem>> retired_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<const ExportRoot>> all_roots_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<const Served>> all_served_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<ObjectKey> former_roots_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<MountKey, const FileSystem*> by_mount_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::FsHandle, const FileSystem*> by_fshandle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
