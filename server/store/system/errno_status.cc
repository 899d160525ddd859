#include "server/store/system/errno_status.h"

#include <cerrno>

namespace dafs::server {

using wire::DafsStatus;

DafsStatus StatusFromErrno(int error) {
  switch (error) {
    case EPERM:
      return DafsStatus::kPerm;
    case ENOENT:
      return DafsStatus::kNoEnt;
    case EIO:
      return DafsStatus::kIo;
    case ENXIO:
    case ENODEV:
      return DafsStatus::kNxio;  // NODEV is not generated (R50)
    case EACCES:
    case EBUSY:    // a mount point: waiting would not help, so not DELAY
    case ETXTBSY:  // the program runs on the server
      return DafsStatus::kAcces;
    case EEXIST:
      return DafsStatus::kExist;
    case EXDEV:
      return DafsStatus::kXdev;
    case ENOTDIR:
      return DafsStatus::kNotDir;
    case EISDIR:
      return DafsStatus::kIsDir;
    case EINVAL:
      return DafsStatus::kInval;
    case EFBIG:
      return DafsStatus::kFbig;
    case ENOSPC:
      return DafsStatus::kNoSpc;
    case EROFS:
      return DafsStatus::kRofs;
    case EMLINK:
      return DafsStatus::kMlink;
    case ENAMETOOLONG:
      return DafsStatus::kNameTooLong;
    case ENOTEMPTY:
      return DafsStatus::kNotEmpty;
    case EDQUOT:
      return DafsStatus::kDquot;
    case ESTALE:
      return DafsStatus::kStale;
    case ELOOP:
      return DafsStatus::kSymlink;
    case EOPNOTSUPP:
    case ENOSYS:
      return DafsStatus::kNotSupp;
    case ENOMEM:
    case ENFILE:
    case EMFILE:
      return DafsStatus::kResource;
    // CephFS has evicted this machine. If the state directory was on it, too, this server ends
    // (server/daemon/state_watch.h), and another one answers the request.
    case ESHUTDOWN:
    case EAGAIN:  // a lease of a local process is being broken
      return DafsStatus::kDelay;
    default:
      return DafsStatus::kServerFault;
  }
}

DafsStatus StatusFromErrno() { return StatusFromErrno(errno); }

}  // namespace dafs::server
