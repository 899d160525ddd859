#include "server/store/mounts.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/store/identity.h"
#include "wire/log.h"
#include "wire/status_macros.h"

#ifndef STATX_MNT_ID_UNIQUE  // Linux 6.8
#define STATX_MNT_ID_UNIQUE 0x00004000U
#endif

namespace dafs::server {
namespace {

// struct file_handle with room for our bytes behind it.
union KernelHandleBuffer {
  file_handle head;
  char room[sizeof(file_handle) + kKernelHandleMax];
};

absl::Status Refused(const Export& e, absl::string_view path, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("export ", e.name, "=", e.directory, ": ", path, ": ", why));
}

absl::Status NoHandles(const Export& e, const std::string& path, int error) {
  if (error == EOVERFLOW) {
    return Refused(e, path,
                   "its kernel handles are longer than the 32 bytes a filehandle has room for; "
                   "export a directory of the file system below it instead");
  }
  if (error == EPERM) {
    return Refused(e, path, "opening by handle is not permitted; dafsd must run as root");
  }
  return Refused(
      e, path,
      absl::StrCat("its file system has no persistent file handles (", std::strerror(error),
                   "); an overlay needs the mount options index=on,nfs_export=on, "
                   "other kinds cannot be exported"));
}

// Mount points in mountinfo have blanks and backslashes as \ooo.
std::string Unescape(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// By the type and source of a line of mountinfo, behind the " - ".
bool IsLocal(absl::string_view rest) {
  for (absl::string_view type : {"nfs", "cifs", "smb", "9p", "ceph", "afs", "lustre"}) {
    if (absl::StartsWith(rest, type)) return false;
  }
  return !absl::StartsWith(rest, "fuse") || absl::StartsWith(rest, "fuseblk");
}

std::string ReadMountTable() {
  std::string text;
  Fd fd(open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  char buffer[16384];
  for (ssize_t n; fd.ok() && (n = read(fd.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

uint64_t MountNumber(int fd) {
  struct statx stx;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID_UNIQUE, &stx) != 0) return 0;
  return (stx.stx_mask & STATX_MNT_ID_UNIQUE) != 0 ? stx.stx_mnt_id : 0;
}

}  // namespace

int GetKernelHandle(int dir, const char* name, KernelHandle* handle) {
  KernelHandleBuffer buffer;
  buffer.head.handle_bytes = kKernelHandleMax;
  int mount_id = 0;
  if (name_to_handle_at(dir, name, &buffer.head, &mount_id, *name == '\0' ? AT_EMPTY_PATH : 0) !=
      0) {
    return errno;
  }
  if (buffer.head.handle_type < 0 || buffer.head.handle_type > 0xff) return EOVERFLOW;
  handle->type = static_cast<uint8_t>(buffer.head.handle_type);
  handle->length = static_cast<uint8_t>(buffer.head.handle_bytes);
  std::memcpy(handle->bytes, buffer.head.f_handle, handle->length);
  handle->mount_id = static_cast<uint64_t>(mount_id);
  return 0;
}

namespace {

// The kernel says ENOMEM, too, of a handle whose inode somebody is just making into another file
// (iget_locked): a moment later it says that the handle is stale. Who makes it may have to wait for
// a processor or the disk; where there is no memory indeed, the caller waits in vain this long.
constexpr int kTries = 12;
constexpr auto kFirstWait = std::chrono::microseconds(25);  // doubled each time: 51 ms in all

}  // namespace

int OpenKernelHandle(const FileSystem& fs, const ObjectKey& key) {
  KernelHandleBuffer buffer;
  const std::span<const uint8_t> bytes = BytesOf(key);
  buffer.head.handle_bytes = static_cast<unsigned>(bytes.size());
  buffer.head.handle_type = TypeOf(key);
  std::memcpy(buffer.head.f_handle, bytes.data(), bytes.size());
  int fd = -1;
  for (int tries = 1; fd < 0; ++tries) {
    fd = open_by_handle_at(fs.root.get(), &buffer.head, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) break;
    if (errno != ENOMEM || tries == kTries) return -errno;
    std::this_thread::sleep_for(kFirstWait * (1 << (tries - 1)));
  }
  return fd;
}

Mounts::Mounts(const std::vector<Export>& exports, const HandleMac& mac)
    : exports_(exports), mac_(mac) {}

absl::StatusOr<std::unique_ptr<Mounts>> Mounts::Open(const std::vector<Export>& exports,
                                                     const HandleMac& mac) {
  std::unique_ptr<Mounts> mounts(new Mounts(exports, mac));
  for (size_t i = 0; i < exports.size(); ++i) {
    char real[PATH_MAX];
    if (realpath(exports[i].directory.c_str(), real) == nullptr) {
      return Refused(exports[i], exports[i].directory, std::strerror(errno));
    }
    mounts->directories_.push_back(real);
    ASSIGN_OR_RETURN(std::unique_ptr<FileSystem> fs, mounts->OpenFileSystem(i, real, ""));
    mounts->tops_.push_back(fs.get());
    absl::MutexLock lock(&mounts->mutex_);
    mounts->Add(std::move(fs));
  }
  return mounts;
}

// `place` is the mount point relative to the export: it tells two mounts of one file system apart,
// which may differ in their options.
absl::StatusOr<std::unique_ptr<FileSystem>> Mounts::OpenFileSystem(size_t export_index,
                                                                   const std::string& path,
                                                                   const std::string& place) const {
  const Export& exported = exports_[export_index];
  auto fs = std::make_unique<FileSystem>();
  fs->exported = &exported;
  fs->export_index = export_index;
  fs->path = path;
  fs->root = Fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fs->root.ok()) return Refused(exported, path, std::strerror(errno));
  KernelHandle handle;
  if (int error = GetKernelHandle(fs->root.get(), "", &handle); error != 0) {
    return NoHandles(exported, path, error);
  }
  struct stat st;
  if (fstat(fs->root.get(), &st) != 0) return Refused(exported, path, std::strerror(errno));
  fs->device = st.st_dev;
  fs->root_inode = st.st_ino;
  fs->mount_id = handle.mount_id;
  fs->mount_number = MountNumber(fs->root.get());
  const auto export_id =
      mac_.Identify(absl::StrCat("export\n", exported.name, "\n", directories_[export_index]));
  struct statfs stats;
  if (fstatfs(fs->root.get(), &stats) != 0) return Refused(exported, path, std::strerror(errno));
  fs->memory = stats.f_type == TMPFS_MAGIC || stats.f_type == RAMFS_MAGIC;
  int fsid[2];
  static_assert(sizeof fsid == sizeof stats.f_fsid);
  std::memcpy(fsid, &stats.f_fsid, sizeof fsid);
  const auto fs_id = mac_.Identify(absl::StrCat("fs\n", fsid[0], "\n", fsid[1], "\n", place));
  std::memcpy(fs->fshandle.bytes.data(), export_id.data(), 8);
  std::memcpy(fs->fshandle.bytes.data() + 8, fs_id.data(), 8);
  // A handle that cannot be opened again is of no use.
  const ObjectKey key =
      MakeKey(fs->fshandle, HandleKind::kFile, handle.type, {handle.bytes, handle.length});
  Fd again(OpenKernelHandle(*fs, key));
  if (!again.ok()) return NoHandles(exported, path, -again.get());
  return fs;
}

void Mounts::Add(std::unique_ptr<FileSystem> fs) {
  by_mount_[{fs->export_index, fs->mount_id}] = fs.get();
  by_fshandle_[fs->fshandle] = fs.get();
  all_.push_back(std::move(fs));
}

struct Mounts::MountPoint {
  uint64_t mount_id = 0;
  std::string path;
  bool local = false;  // nobody has to answer for it to be looked at, perhaps we ourselves
};

// Outermost first; without those of autofs, which has no handles, and mounts what is opened.
std::vector<Mounts::MountPoint> Mounts::MountPointsBeneath(const std::string& directory) {
  const std::string text = ReadMountTable();
  const std::string prefix = directory == "/" ? directory : directory + "/";
  std::vector<MountPoint> result;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    // 36 35 98:0 /root /mount/point options ... - type source options
    std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(' ', 5));
    MountPoint point;
    if (fields.size() < 6 || !absl::SimpleAtoi(fields[0], &point.mount_id)) continue;
    point.path = Unescape(fields[4]);
    if (point.path.size() <= prefix.size() || !absl::StartsWith(point.path, prefix)) continue;
    const size_t rest = line.find(" - ");
    const absl::string_view type = rest == line.npos ? "" : line.substr(rest + 3);
    if (absl::StartsWith(type, "autofs")) continue;
    point.local = !type.empty() && IsLocal(type);
    result.push_back(std::move(point));
  }
  return result;
}

void Mounts::FindWith(const char* name) {
  ScopedPrivilege privilege;
  for (size_t i = 0; i < exports_.size(); ++i) {
    Discover(i, [name](const MountPoint& point) {
      return point.local && access(absl::StrCat(point.path, "/", name).c_str(), F_OK) == 0;
    });
  }
}

void Mounts::Discover(size_t export_index, absl::FunctionRef<bool(const MountPoint&)> wanted) {
  ScopedPrivilege privilege;
  for (const MountPoint& point : MountPointsBeneath(directories_[export_index])) {
    if (wanted(point)) TakeUp(export_index, point);
  }
}

// Whoever else wants the same one waits until it is there.
void Mounts::TakeUp(size_t export_index, const MountPoint& point) {
  const MountKey key{export_index, point.mount_id};
  {
    const auto free = [&]()
                          ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !under_way_.contains(key); };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&free));
    if (by_mount_.contains(key)) return;
    under_way_.insert(key);
  }
  absl::StatusOr<std::unique_ptr<FileSystem>> fs = OpenFileSystem(
      export_index, point.path, point.path.substr(directories_[export_index].size()));
  if (!fs.ok()) LogInfo(std::string(fs.status().message()) + " (not served)");
  const bool there = fs.ok() && (*fs)->mount_id == point.mount_id;  // not beneath another mount
  if (there && found_) found_(**fs);
  absl::MutexLock lock(&mutex_);
  if (there) Add(*std::move(fs));
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

const FileSystem* Mounts::FindByMountId(const FileSystem& from, uint64_t mount_id) {
  if (mount_id == from.mount_id) return &from;
  const MountKey key{from.export_index, mount_id};
  if (const FileSystem* known = Known(key); known != nullptr) return known;
  Discover(from.export_index,
           [mount_id](const MountPoint& point) { return point.mount_id == mount_id; });
  return Known(key);
}

const FileSystem* Mounts::FindByFsHandle(const wire::FsHandle& fshandle) {
  if (const FileSystem* known = Known(fshandle); known != nullptr) return known;
  for (const bool local : {true, false}) {
    for (size_t i = 0; i < exports_.size(); ++i) {
      Discover(i, [local](const MountPoint& point) { return point.local == local; });
    }
    if (const FileSystem* found = Known(fshandle); found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace dafs::server
