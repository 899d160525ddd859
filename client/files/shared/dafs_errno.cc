#include "client/files/shared/dafs_errno.h"

#include <cerrno>

namespace dafs::client {

int ErrnoFromDafs(wire::DafsStatus status) {
  using enum wire::DafsStatus;
  switch (status) {
    case kOk:
      return 0;
    case kPerm:
      return EPERM;
    case kNoEnt:
      return ENOENT;
    case kIo:
      return EIO;
    case kNxio:
      return ENXIO;
    case kAcces:
    case kWrongSec:
    case kNotAuthorized:
    case kNoCreds:
      return EACCES;
    case kExist:
      return EEXIST;
    case kXdev:
      return EXDEV;
    case kNoDev:
      return ENODEV;
    case kNotDir:
      return ENOTDIR;
    case kIsDir:
      return EISDIR;
    case kInval:
    case kBadType:
    case kBadCookie:
    case kLockRange:
      return EINVAL;
    case kFbig:
    case kWriteTooBig:
      return EFBIG;
    case kNoSpc:
      return ENOSPC;
    case kRofs:
      return EROFS;
    case kMlink:
      return EMLINK;
    case kNameTooLong:
      return ENAMETOOLONG;
    case kNotEmpty:
      return ENOTEMPTY;
    case kDquot:
      return EDQUOT;
    // After ESTALE the kernel walks the path a second time.
    case kStale:
    case kBadHandle:
    case kFhExpired:
    case kNoFileHandle:
      return ESTALE;
    case kNotSupp:
      return EOPNOTSUPP;
    case kSymlink:
      return ELOOP;
    // Another client's open denies the access, or a lock conflicts.
    case kDenied:
    case kShareDenied:
    case kLocked:
    case kKeyMismatch:
    case kDenyDispConflict:
      return EACCES;
    // As a robust mutex: the holder has failed. Unlike there, the lock is not granted.
    case kLockBroken:
      return EOWNERDEAD;
    case kDelay:
    case kGrace:
      return EAGAIN;
    // Usually the server lacks file descriptors; it may also have reached its limit of opens. For
    // locks see fuse/operations/files/locks.cc.
    case kResource:
      return ENFILE;
    default:
      return EIO;
  }
}

}  // namespace dafs::client
