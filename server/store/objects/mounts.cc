#include "server/store/objects/mounts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/files/mount_table.h"
#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/objects/export_refusal.h"
#include "server/store/objects/mount_types.h"
#include "server/store/system/identity.h"

namespace dafs::server {

struct Mounts::MountPoint {
  uint64_t mount_id = 0;
  std::string path;
  bool local = false;  // IsLocal
};

Mounts::Mounts(const ExportSet& exports, const HandleMac& mac)
    : exports_(exports), mac_(mac), may_hang_(exports.capacity()) {
  auto none = std::make_unique<Served>();
  none->roots.resize(exports.capacity());
  served_.store(none.get(), std::memory_order_release);
  absl::MutexLock lock(&mutex_);
  all_served_.push_back(std::move(none));
}

absl::StatusOr<Mounts::Opened> Mounts::Open(size_t export_index) {
  const Export& exported = exports_[export_index];
  char real[PATH_MAX];
  if (realpath(exported.directory.c_str(), real) == nullptr) {
    return Refused(exported, exported.directory, std::strerror(errno));
  }
  Opened opened;
  opened.root.directory = real;
  opened.root.id = mac_.Identify(absl::StrCat("export\n", exported.name, "\n", real));
  ASSIGN_OR_RETURN(opened.top, OpenFileSystem(export_index, real, "", opened.root.id));
  opened.may_hang = opened.top->may_hang;
  for (const MountPoint& point : MountPointsBeneath(real)) {
    opened.may_hang = opened.may_hang || !point.local;
  }
  KernelHandle handle;
  if (int error = GetKernelHandle(opened.top->root.get(), "", &handle); error != 0) {
    return NoHandles(exported, real, error);
  }
  opened.root.top = opened.top.get();
  opened.root.handle = mac_.Seal(
      MakeKey(opened.top->fshandle, HandleKind::kFile, handle.type, {handle.bytes, handle.length}));
  return opened;
}

const ExportRoot* Mounts::Serve(size_t export_index, Opened opened) {
  auto root = std::make_unique<const ExportRoot>(std::move(opened.root));
  absl::MutexLock lock(&mutex_);
  auto next = std::make_unique<Served>(*all_served_.back());
  const ExportRoot* const before = std::exchange(next->roots[export_index], root.get());
  // An export that was removed may have had the same name and led to the same directory.
  std::erase_if(next->ids, [&](const auto& each) { return each.first == root->id; });
  next->ids.emplace_back(root->id, export_index);
  // Files of a former directory may still be open.
  if (before == nullptr || opened.may_hang) SetMayHang(export_index, opened.may_hang);
  if (before != nullptr) former_roots_.insert(KeyOf(before->handle));
  former_roots_.erase(KeyOf(root->handle));
  Add(std::move(opened.top));
  served_.store(next.get(), std::memory_order_release);
  all_roots_.push_back(std::move(root));
  all_served_.push_back(std::move(next));
  return before;
}

void Mounts::ForEachIn(size_t export_index, absl::FunctionRef<void(const FileSystem&)> use) const {
  std::vector<const FileSystem*> found;  // they live as long as this
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& fs : all_) {
      if (fs->export_index == export_index) found.push_back(fs.get());
    }
  }
  for (const FileSystem* fs : found) use(*fs);
}

std::vector<const FileSystem*> Mounts::Retire(size_t export_index) {
  std::vector<const FileSystem*> found;
  absl::MutexLock lock(&mutex_);
  for (std::unique_ptr<FileSystem>& fs : all_) {
    if (fs->export_index != export_index) continue;
    fs->retired.store(true);
    found.push_back(fs.get());
    retired_.push_back(std::move(fs));
  }
  std::erase(all_, nullptr);
  const auto is_retired = [](const auto& each) { return each.second->retired.load(); };
  absl::erase_if(by_mount_, is_retired);
  absl::erase_if(by_fshandle_, is_retired);
  roots_.clear();  // several file systems may have the same root
  for (const std::unique_ptr<FileSystem>& fs : all_) roots_.insert({fs->device, fs->root_inode});
  return found;
}

bool Mounts::IsRetired(const wire::FsHandle& fshandle) const {
  const std::optional<size_t> index = ExportOf(fshandle);
  const ExportRoot* root = index ? Root(*index) : nullptr;
  return root != nullptr && root->top->retired.load();
}

bool Mounts::IsFormerRoot(const ObjectKey& key) const {
  absl::ReaderMutexLock lock(&mutex_);
  return former_roots_.contains(key);
}

Mounts::Leads Mounts::WhereLeads(size_t export_index) const {
  const ExportRoot* root = Root(export_index);
  struct statx stx;
  constexpr int kFlags = AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  constexpr unsigned kMask = STATX_INO | STATX_MNT_ID;
  if (statx(AT_FDCWD, exports_[export_index].directory.c_str(), kFlags, kMask, &stx) != 0) {
    const bool gone = errno == ENOENT || errno == ENOTDIR;
    return gone ? Leads::kNowhere : root == nullptr ? Leads::kElsewhere : Leads::kToRoot;
  }
  // The descriptor of the root keeps its numbers from being used again.
  const bool same =
      root != nullptr && IsIn(*root->top, stx) && stx.stx_ino == root->top->root_inode;
  return same ? Leads::kToRoot : Leads::kElsewhere;
}

bool Mounts::LeadsToWhatMayHang(size_t export_index) const {
  const UniqueFd place(open(exports_[export_index].directory.c_str(), O_PATH | O_CLOEXEC));
  const std::string type = place.valid() ? TypeOfFileSystem(place.get()) : "";
  return !type.empty() && !IsLocal(type);
}

void Mounts::Add(std::unique_ptr<FileSystem> fs) {
  const uint64_t within = fs->outer != nullptr ? fs->subvolume : 0;
  by_mount_[{fs->export_index, fs->mount_id, within}] = fs.get();
  by_fshandle_[fs->fshandle] = fs.get();
  roots_.insert({fs->device, fs->root_inode});
  all_.push_back(std::move(fs));
}

void Mounts::SetMayHang(size_t export_index, bool may_hang) {
  if (may_hang_[export_index].exchange(may_hang, std::memory_order_relaxed) == may_hang) return;
  may_hang_count_.fetch_add(may_hang ? 1 : -1, std::memory_order_relaxed);
}

std::optional<size_t> Mounts::ExportThatMayHang(const wire::FsHandle& fshandle) const {
  if (!any_may_hang()) return std::nullopt;
  const std::optional<size_t> index = ExportOf(fshandle);
  return index && MayHang(*index) ? index : std::nullopt;
}

std::optional<size_t> Mounts::ExportOf(const wire::FsHandle& fshandle) const {
  for (const auto& [id, index] : served_.load(std::memory_order_acquire)->ids) {
    if (std::memcmp(id.data(), fshandle.bytes.data(), id.size()) == 0) return index;
  }
  return std::nullopt;
}

bool Mounts::IsRoot(int fd) const {
  struct stat st;
  if (fstat(fd, &st) != 0) return false;
  absl::ReaderMutexLock lock(&mutex_);
  return roots_.contains({st.st_dev, st.st_ino});
}

// Outermost first. Omits autofs mounts, which have no handles and mount whatever is opened.
std::vector<Mounts::MountPoint> Mounts::MountPointsBeneath(const std::string& directory) {
  const std::string prefix = directory == "/" ? directory : directory + "/";
  std::vector<MountPoint> result;
  for (MountEntry& mount : ReadMountTable()) {
    if (mount.point.size() <= prefix.size() || !absl::StartsWith(mount.point, prefix) ||
        mount.type == "autofs") {
      continue;
    }
    const bool local = IsLocal(mount.type);
    result.push_back({mount.mount_id, std::move(mount.point), local});
  }
  return result;
}

void Mounts::FindWith(size_t export_index, const char* name) {
  ScopedPrivilege privilege;
  Discover(export_index, [name](const MountPoint& point) {
    return point.local && access(absl::StrCat(point.path, "/", name).c_str(), F_OK) == 0;
  });
}

void Mounts::Discover(size_t export_index, absl::FunctionRef<bool(const MountPoint&)> wanted) {
  const ExportRoot* root = Root(export_index);
  if (root == nullptr || root->top->retired.load()) return;
  ScopedPrivilege privilege;
  for (const MountPoint& point : MountPointsBeneath(root->directory)) {
    if (!point.local) NoteMayHang(export_index);
    if (wanted(point)) TakeUp(*root, point);
  }
}

void Mounts::TakeUp(const ExportRoot& root, const MountPoint& point) {
  const size_t export_index = root.top->export_index;
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<FileSystem>> {
    ASSIGN_OR_RETURN(std::unique_ptr<FileSystem> fs,
                     OpenFileSystem(export_index, point.path,
                                    point.path.substr(root.directory.size()), root.id));
    if (fs->mount_id != point.mount_id) fs = nullptr;  // hidden beneath another mount
    return fs;
  };
  AddOnce({export_index, point.mount_id, 0}, *root.top, open);
}

void Mounts::AddOnce(const MountKey& key, const FileSystem& within,
                     absl::FunctionRef<absl::StatusOr<std::unique_ptr<FileSystem>>()> open) {
  {
    const auto free = [&]()
                          ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !under_way_.contains(key); };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&free));
    if (by_mount_.contains(key)) return;
    under_way_.insert(key);
  }
  absl::StatusOr<std::unique_ptr<FileSystem>> fs = open();
  if (!fs.ok()) LogInfo(std::string(fs.status().message()) + " (not served)");
  const bool there = fs.ok() && *fs != nullptr;
  if (there && found_) found_(**fs);
  absl::MutexLock lock(&mutex_);
  if (there && !within.retired.load()) {
    Add(*std::move(fs));
  } else if (there) {
    (*fs)->retired.store(true);
    ReleaseRoot(**fs);
    retired_.push_back(*std::move(fs));  // found_ may refer to it
  }
  under_way_.erase(key);
}

const FileSystem* Mounts::Known(const MountKey& key) {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = by_mount_.find(key);
  return it == by_mount_.end() ? nullptr : it->second;
}

const FileSystem* Mounts::Known(const wire::FsHandle& fshandle) {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = by_fshandle_.find(fshandle);
  return it == by_fshandle_.end() ? nullptr : it->second;
}

const FileSystem* Mounts::FindByKernelHandle(const FileSystem& from, const KernelHandle& handle) {
  const uint64_t subvolume = SubvolumeOf(handle.type, {handle.bytes, handle.length});
  if (handle.mount_id == from.mount_id && subvolume == from.subvolume) return &from;
  const FileSystem* mount = &from.mount();
  if (handle.mount_id != from.mount_id) {
    const MountKey key{from.export_index, handle.mount_id, 0};
    mount = Known(key);
    if (mount == nullptr) {
      Discover(from.export_index,
               [&](const MountPoint& point) { return point.mount_id == handle.mount_id; });
      mount = Known(key);
    }
  }
  return mount == nullptr ? nullptr : FindSubvolume(*mount, subvolume);
}

const FileSystem* Mounts::FindByFileHandle(const wire::FileHandle& filehandle) {
  const ObjectKey key = KeyOf(filehandle);
  return Find(filehandle.fshandle, SubvolumeOf(TypeOf(key), BytesOf(key)));
}

const FileSystem* Mounts::Find(const wire::FsHandle& fshandle, uint64_t subvolume) {
  if (const FileSystem* known = Known(fshandle); known != nullptr) return known;
  if (const FileSystem* mount = MountOfSubvolume(fshandle, subvolume); mount != nullptr) {
    return FindSubvolume(*mount, subvolume);
  }
  const std::optional<size_t> index = ExportOf(fshandle);
  if (!index) return nullptr;
  for (const bool local : {true, false}) {
    Discover(*index, [local](const MountPoint& point) { return point.local == local; });
    if (const FileSystem* found = Known(fshandle); found != nullptr) return found;
    if (const FileSystem* mount = MountOfSubvolume(fshandle, subvolume); mount != nullptr) {
      return FindSubvolume(*mount, subvolume);
    }
  }
  return nullptr;
}

}  // namespace dafs::server
