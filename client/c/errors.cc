#include "client/c/errors.h"

#include "client/files/shared/dafs_errno.h"
#include "wire/protocol/status.h"

namespace dafs::c {
namespace {

LastError& MutableLast() {
  thread_local LastError last;
  return last;
}

}  // namespace

const LastError& Last() { return MutableLast(); }

int ErrnoOf(const absl::Status& status) {
  if (status.ok()) return 0;
  if (wire::HasDafsStatus(status)) {
    const int error = client::ErrnoFromDafs(wire::DafsFromStatus(status));
    return error != 0 ? error : EIO;
  }
  switch (status.code()) {
    case absl::StatusCode::kUnimplemented:
      return EOPNOTSUPP;
    case absl::StatusCode::kCancelled:
      return ECANCELED;
    case absl::StatusCode::kResourceExhausted:
      return ENOMEM;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:    // no such memory, no such address
    case absl::StatusCode::kOutOfRange:  // outside of registered memory
      return EINVAL;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return EACCES;
    case absl::StatusCode::kFailedPrecondition:
      return EBUSY;
    case absl::StatusCode::kDeadlineExceeded:
      return ETIMEDOUT;
    case absl::StatusCode::kUnavailable:
      return ENOTCONN;
    default:
      return EIO;
  }
}

int Fail(const absl::Status& status) {
  LastError& last = MutableLast();
  last.message.assign(status.message().data(), status.message().size());
  last.status =
      wire::HasDafsStatus(status) ? static_cast<uint32_t>(wire::DafsFromStatus(status)) : 0;
  return -ErrnoOf(status);
}

int Fail(int error, std::string_view message) {
  LastError& last = MutableLast();
  last.message = message;
  last.status = 0;
  return -error;
}

}  // namespace dafs::c
