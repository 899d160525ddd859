#include "fuse/kernel/opcode_name.h"

#include <string_view>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {
namespace {

struct Row {
  uint32_t opcode;
  std::string_view name;
};
constexpr Row kRows[] = {
    {FUSE_LOOKUP, "LOOKUP"},
    {FUSE_GETATTR, "GETATTR"},
    {FUSE_SETATTR, "SETATTR"},
    {FUSE_READLINK, "READLINK"},
    {FUSE_SYMLINK, "SYMLINK"},
    {FUSE_MKNOD, "MKNOD"},
    {FUSE_MKDIR, "MKDIR"},
    {FUSE_UNLINK, "UNLINK"},
    {FUSE_RMDIR, "RMDIR"},
    {FUSE_RENAME, "RENAME"},
    {FUSE_LINK, "LINK"},
    {FUSE_OPEN, "OPEN"},
    {FUSE_READ, "READ"},
    {FUSE_WRITE, "WRITE"},
    {FUSE_STATFS, "STATFS"},
    {FUSE_RELEASE, "RELEASE"},
    {FUSE_FSYNC, "FSYNC"},
    {FUSE_SETXATTR, "SETXATTR"},
    {FUSE_GETXATTR, "GETXATTR"},
    {FUSE_LISTXATTR, "LISTXATTR"},
    {FUSE_REMOVEXATTR, "REMOVEXATTR"},
    {FUSE_FLUSH, "FLUSH"},
    {FUSE_OPENDIR, "OPENDIR"},
    {FUSE_READDIR, "READDIR"},
    {FUSE_RELEASEDIR, "RELEASEDIR"},
    {FUSE_FSYNCDIR, "FSYNCDIR"},
    {FUSE_GETLK, "GETLK"},
    {FUSE_SETLK, "SETLK"},
    {FUSE_SETLKW, "SETLKW"},
    {FUSE_IOCTL, "IOCTL"},
    {FUSE_ACCESS, "ACCESS"},
    {FUSE_CREATE, "CREATE"},
    {FUSE_FALLOCATE, "FALLOCATE"},
    {FUSE_READDIRPLUS, "READDIRPLUS"},
    {FUSE_RENAME2, "RENAME2"},
    {FUSE_LSEEK, "LSEEK"},
    {FUSE_COPY_FILE_RANGE, "COPY_FILE_RANGE"},
    {FUSE_TMPFILE, "TMPFILE"},
    {kStatx, "STATX"},
    {kCopyFileRange64, "COPY_FILE_RANGE"},
};

}  // namespace

std::string OpcodeName(uint32_t opcode) {
  for (const Row& row : kRows) {
    if (row.opcode == opcode) return std::string(row.name);
  }
  return std::to_string(opcode);
}

}  // namespace dafs::fuse
