// The kernel's FUSE protocol, <linux/fuse.h>, and what Debian 12's copy (7.38) lacks. We use it
// directly: libfuse 3.14 has no callbacks for newer requests, and its loops control the waiting
// (docs/decisions.md).
#pragma once

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>

namespace dafs::fuse {

// The oldest kernel protocol that we accept: Linux 5.4 (7.31), the first in which all structures
// are as here.
inline constexpr uint32_t kLeastMinor = 31;

// INIT flags of newer kernels. Bits 32 and up are sent in flags2.
inline constexpr uint64_t kInitDirectIoAllowMmap = uint64_t{1} << 36;  // 7.39

// Notifications without a body. The kernel puts the requests that were read and not answered back
// in its queue (Linux 6.9), each with this bit in its number.
inline constexpr int32_t kNotifyResend = 7;
inline constexpr uint64_t kUniqueResent = uint64_t{1} << 63;
// Each name that the kernel knows is looked up again before it is used (Linux 6.16).
inline constexpr int32_t kNotifyIncEpoch = 8;

// COPY_FILE_RANGE with an answer of 64 bits (7.45): the same request, and this answer.
inline constexpr uint32_t kCopyFileRange64 = 53;
struct CopyFileRangeOut {
  uint64_t bytes_copied;
};
// STATX, 7.39: its request begins like that of GETATTR.
inline constexpr uint32_t kStatx = 52;
struct StatxTime {
  int64_t seconds;
  uint32_t nanoseconds;
  int32_t reserved;
};
struct StatxAttributes {
  uint32_t mask;  // STATX_... of statx(2): which fields are valid
  uint32_t blksize;
  uint64_t attributes;
  uint32_t nlink;
  uint32_t uid;
  uint32_t gid;
  uint16_t mode;
  uint16_t spare0;
  uint64_t ino;
  uint64_t size;
  uint64_t blocks;
  uint64_t attributes_mask;
  StatxTime atime;
  StatxTime btime;
  StatxTime ctime;
  StatxTime mtime;
  uint32_t rdev_major;
  uint32_t rdev_minor;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint64_t spare2[14];
};
struct StatxOut {
  uint64_t attr_valid;
  uint32_t attr_valid_nsec;
  uint32_t flags;
  uint64_t spare[2];
  StatxAttributes stat;
};
static_assert(sizeof(StatxOut) == 288);

// A file opened for execve(2) has this in its OPEN flags (FMODE_EXEC).
inline constexpr uint32_t kOpenForExec = 040;

// The offset of the data in a WRITE request. A request is read to this many bytes before a page
// boundary, so that the data begins on one.
inline constexpr size_t kWriteHeaderBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);
static_assert(kWriteHeaderBytes == 80);

// The longest body that we read, except those of WRITE and SETXATTR: SYMLINK with a target of
// PATH_MAX and a name.
inline constexpr size_t kBodyMax = 8192;
// SETXATTR: the structure, a name of XATTR_NAME_MAX with its NUL, and a value of XATTR_SIZE_MAX.
inline constexpr size_t kSetxattrBodyMax = 16 + 256 + 65536;
// The longest body of a request except WRITE. Longer requests are not supported (IOCTL), and the
// header is enough to answer so.
inline constexpr size_t BodyMax(uint32_t opcode) {
  return opcode == FUSE_SETXATTR ? kSetxattrBodyMax : kBodyMax;
}

}  // namespace dafs::fuse
