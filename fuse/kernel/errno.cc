#include "fuse/kernel/errno.h"

#include <cerrno>

#include "client/files/shared/dafs_errno.h"
#include "wire/auth/credentials.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {

int ErrnoFromStatus(const absl::Status& status) {
  if (status.ok()) return 0;
  if (wire::HasDafsStatus(status)) {
    int error = client::ErrnoFromDafs(wire::DafsFromStatus(status));
    return error != 0 ? error : EIO;
  }
  switch (status.code()) {
    case absl::StatusCode::kUnimplemented:
      return EOPNOTSUPP;
    case absl::StatusCode::kCancelled:  // the mount is ending
      return ENOTCONN;
    case absl::StatusCode::kResourceExhausted:
      return ENOMEM;
    case absl::StatusCode::kInvalidArgument:
      return EINVAL;
    case absl::StatusCode::kUnauthenticated:  // a user without a ticket
      return auth::HaveExpired(status) ? EKEYEXPIRED : EACCES;
    case absl::StatusCode::kDeadlineExceeded:  // of a soft mount
      return ETIMEDOUT;
    default:
      return EIO;
  }
}

}  // namespace dafs::fuse
