#include "server/store/holdings/locks/kernel_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "runtime/files/unique_fd.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::LockRange;

namespace {

constexpr uint64_t kOffsetMost = std::numeric_limits<off_t>::max();

// Converts a range for fcntl(2). Returns false if the kernel cannot express it.
bool ToKernel(uint64_t first, uint64_t last, short type, struct flock* lock) {
  if (first > kOffsetMost) return false;
  *lock = {};
  lock->l_type = type;
  lock->l_whence = SEEK_SET;
  lock->l_start = static_cast<off_t>(first);
  lock->l_len = last >= kOffsetMost ? 0 : static_cast<off_t>(last - first + 1);
  return true;
}

DafsStatus StatusOf(int error) {
  if (error == EAGAIN || error == EACCES) return DafsStatus::kDenied;
  return error == ENOLCK ? DafsStatus::kResource : StatusFromErrno(error);
}

DafsStatus SetRange(int fd, const LockRange& range) {
  struct flock lock;
  if (!ToKernel(range.first, range.last, range.write ? F_WRLCK : F_RDLCK, &lock)) {
    return DafsStatus::kOk;
  }
  return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? DafsStatus::kOk : StatusOf(errno);
}

UniqueFd OpenForLocks(const Object& file, bool write) {
  ScopedPrivilege privilege;
  return UniqueFd(open(FdPath(file.path_fd()).c_str(),
                       (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

}  // namespace

std::optional<LockRange> TestKernelLock(int fd, const LockRange& range) {
  struct flock lock;
  if (range.is_flock() ||
      !ToKernel(range.first, range.last, range.write ? F_WRLCK : F_RDLCK, &lock) ||
      fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) {
    return std::nullopt;
  }
  const auto first = static_cast<uint64_t>(lock.l_start);
  const uint64_t last =
      lock.l_len == 0 ? wire::kFlockByte - 1 : first + static_cast<uint64_t>(lock.l_len) - 1;
  return LockRange{first, last, lock.l_type == F_WRLCK};
}

KernelLock::~KernelLock() {
  const size_t open = (ranges_.valid() ? 1 : 0) + (flock_.valid() ? 1 : 0);
  descriptors_.fetch_sub(open, std::memory_order_relaxed);
}

void KernelLock::Keep(UniqueFd& slot, UniqueFd fd) {
  if (!slot.valid()) descriptors_.fetch_add(1, std::memory_order_relaxed);
  slot = std::move(fd);
}

// A description opened for reading can hold only read locks. Before one opened for writing replaces
// it, the new one takes the same locks. Read locks do not conflict, so the file is never unlocked
// in between.
DafsStatus KernelLock::OpenRanges(const Object& file, bool write, const wire::LockRanges& held) {
  UniqueFd fd = OpenForLocks(file, write);
  if (!fd.valid()) return StatusFromErrno();
  for (const LockRange& range : held.ranges()) {
    if (range.is_flock()) continue;
    if (DafsStatus status = SetRange(fd.get(), range); status != DafsStatus::kOk) return status;
  }
  Keep(ranges_, std::move(fd));
  write_ = write;
  return DafsStatus::kOk;
}

DafsStatus KernelLock::Lock(const Object& file, const LockRange& range,
                            const wire::LockRanges& held, bool writable) {
  if (range.is_flock()) {
    if (!flock_.valid()) {
      UniqueFd fd = OpenForLocks(file, false);
      if (!fd.valid()) return StatusFromErrno();
      Keep(flock_, std::move(fd));
    }
    const int how = (range.write ? LOCK_EX : LOCK_SH) | LOCK_NB;
    return flock(flock_.get(), how) == 0 ? DafsStatus::kOk : StatusOf(errno);
  }
  if (range.first > kOffsetMost) return DafsStatus::kOk;
  if (!ranges_.valid() || (range.write && !write_)) {
    DafsStatus status = OpenRanges(file, range.write || writable, held);
    // A running program, or a file on a read-only file system, can be opened for reading only.
    if (status != DafsStatus::kOk && !range.write && writable) {
      status = OpenRanges(file, false, held);
    }
    if (status != DafsStatus::kOk) return status;
  }
  return SetRange(ranges_.get(), range);
}

void KernelLock::Unlock(uint64_t first, uint64_t last) {
  if (last == wire::kFlockByte && flock_.valid()) flock(flock_.get(), LOCK_UN);
  struct flock lock;
  if (ranges_.valid() && ToKernel(first, last, F_UNLCK, &lock)) {
    fcntl(ranges_.get(), F_OFD_SETLK, &lock);
  }
}

}  // namespace dafs::server
