#include "fuse/kernel/repeatable.h"

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {

bool MayBeRepeated(uint32_t opcode) {
  switch (opcode) {
    case FUSE_LOOKUP:
    case FUSE_GETATTR:
    case kStatx:
    case FUSE_ACCESS:
    case FUSE_READLINK:
    case FUSE_STATFS:
    case FUSE_GETXATTR:
    case FUSE_LISTXATTR:
    case FUSE_OPEN:
    case FUSE_OPENDIR:
    case FUSE_READ:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
    case FUSE_LSEEK:
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    // The server knows the owner, who may hold the lock already, or not any more.
    case FUSE_GETLK:
    case FUSE_SETLK:
    case FUSE_SETLKW:
    case FUSE_IOCTL:
    // The handle may not be known any more.
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_INTERRUPT:  // its number has the bit of the request that it ends
      return true;
    default:
      return false;
  }
}

}  // namespace dafs::fuse
