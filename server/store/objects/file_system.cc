#include "server/store/objects/file_system.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace dafs::server {
namespace {

// struct file_handle followed by room for the handle bytes.
union KernelHandleBuffer {
  file_handle head;
  char room[sizeof(file_handle) + kKernelHandleMax];
};

}  // namespace

bool IsIn(const FileSystem& fs, const struct statx& stx) {
  const bool same_mount = (stx.stx_mask & STATX_MNT_ID) == 0 || stx.stx_mnt_id == fs.mount_id;
  return same_mount && (fs.layered || makedev(stx.stx_dev_major, stx.stx_dev_minor) == fs.device);
}

uint64_t FileIdOf(const FileSystem& fs, const struct statx& stx) {
  if (!fs.layered) return stx.stx_ino;
  const uint64_t device = makedev(stx.stx_dev_major, stx.stx_dev_minor);
  if (device == fs.device) return stx.stx_ino;
  return stx.stx_ino ^ (device * 0xd6e8feb86659fd93);  // an odd factor loses no bits
}

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

// <linux/exportfs.h> FILEID_BTRFS_WITHOUT_PARENT, in the machine's byte order: inode number (8
// bytes), subvolume (8), generation (4). Every Btrfs handle that is not connectable has this form.
constexpr uint8_t kBtrfsHandle = 0x4d;
constexpr size_t kBtrfsHandleBytes = 20;
constexpr size_t kSubvolumeAt = 8;
constexpr uint64_t kSubvolumeRoot = 256;  // inode number of the root of each subvolume

}  // namespace

uint64_t SubvolumeOf(uint8_t type, std::span<const uint8_t> handle) {
  if (type != kBtrfsHandle || handle.size() != kBtrfsHandleBytes) return 0;
  uint64_t subvolume = 0;
  std::memcpy(&subvolume, handle.data() + kSubvolumeAt, sizeof subvolume);
  return subvolume;
}

UniqueFd OpenRoot(const FileSystem& fs) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
  if (fs.outer == nullptr) return UniqueFd(openat(fs.root.get(), ".", kFlags));
  KernelHandleBuffer buffer = {};  // generation 0 matches any
  buffer.head.handle_bytes = kBtrfsHandleBytes;
  buffer.head.handle_type = kBtrfsHandle;
  std::memcpy(buffer.head.f_handle, &kSubvolumeRoot, sizeof kSubvolumeRoot);
  std::memcpy(buffer.head.f_handle + kSubvolumeAt, &fs.subvolume, sizeof fs.subvolume);
  return UniqueFd(open_by_handle_at(fs.outer->root.get(), &buffer.head, kFlags));
}

namespace {

// The kernel returns ENOMEM also for a handle whose inode another thread is just reusing for a new
// file (iget_locked). A moment later it returns ESTALE. The other thread may have to wait for a
// processor or the disk. If memory is really short, the caller waits this long without success.
constexpr int kTries = 12;
constexpr auto kFirstWait = std::chrono::microseconds(25);  // doubled each time: 51 ms in total

}  // namespace

// An event descriptor has no directory entries and no handles. The number stays in use, so that no
// other file gets it.
void ReleaseRoot(const FileSystem& fs) {
  if (fs.outer != nullptr) return;
  const UniqueFd nothing(eventfd(0, EFD_CLOEXEC));
  if (nothing.valid()) dup3(nothing.get(), fs.root.get(), O_CLOEXEC);
}

int OpenKernelHandle(const FileSystem& fs, const ObjectKey& key) {
  KernelHandleBuffer buffer;
  const std::span<const uint8_t> bytes = BytesOf(key);
  buffer.head.handle_bytes = static_cast<unsigned>(bytes.size());
  buffer.head.handle_type = TypeOf(key);
  std::memcpy(buffer.head.f_handle, bytes.data(), bytes.size());
  int fd = -1;
  for (int tries = 1; fd < 0; ++tries) {
    fd = open_by_handle_at(fs.mount().root.get(), &buffer.head, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) break;
    if (errno != ENOMEM || tries == kTries) return -errno;
    std::this_thread::sleep_for(kFirstWait * (1 << (tries - 1)));
  }
  return fd;
}

}  // namespace dafs::server
