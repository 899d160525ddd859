// The kernel's FUSE protocol, <linux/fuse.h>, with what Debian 12's copy (7.38) lacks. We speak it
// directly: libfuse 3.14 has no callback for newer requests, and its loops own the wait
// (docs/decisions.md).
#pragma once

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>

namespace dafs::fuse {

// The oldest kernel protocol we take: Linux 5.4 (7.31), the first whose structures are all as here.
inline constexpr uint32_t kLeastMinor = 31;

// INIT flags of newer kernels; bits 32 and up travel in flags2.
inline constexpr uint64_t kInitDirectIoAllowMmap = uint64_t{1} << 36;  // 7.39

// COPY_FILE_RANGE answered with 64 bits (7.45): the same request, and this answer.
inline constexpr uint32_t kCopyFileRange64 = 53;
struct CopyFileRangeOut {
  uint64_t bytes_copied;
};
// STATX, 7.39: its request begins as that of GETATTR.
inline constexpr uint32_t kStatx = 52;
struct StatxTime {
  int64_t seconds;
  uint32_t nanoseconds;
  int32_t reserved;
};
struct StatxAttributes {
  uint32_t mask;  // STATX_... of statx(2): what is told
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

// Where the data of a WRITE begins behind the first byte of the request. A request is read to this
// many bytes before a page boundary, so that the data lands on one.
inline constexpr size_t kWriteHeaderBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);
static_assert(kWriteHeaderBytes == 80);

// The longest request but WRITE and SETXATTR whose body we look at: SYMLINK with a target of
// PATH_MAX and a name.
inline constexpr size_t kBodyMax = 8192;
// SETXATTR: the structure, a name and a value, XATTR_NAME_MAX and XATTR_SIZE_MAX with their ends.
inline constexpr size_t kSetxattrBodyMax = 16 + 256 + 65536;
// Of a request but WRITE: longer ones are requests we do not have (IOCTL), and the header is enough
// to say so.
inline constexpr size_t BodyMax(uint32_t opcode) {
  return opcode == FUSE_SETXATTR ? kSetxattrBodyMax : kBodyMax;
}

}  // namespace dafs::fuse
