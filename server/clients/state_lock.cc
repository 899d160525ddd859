#include "server/clients/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dafs::server {

absl::StatusOr<std::unique_ptr<StateLock>> StateLock::Acquire(const std::string& state_dir) {
  const std::string path = absl::StrCat(state_dir, "/lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": ", std::strerror(errno), "; the state directory must be writable for dafsd"));
  }
  // flock(2), not fcntl(2): it also separates two servers in one process.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    close(fd);
    if (error != EWOULDBLOCK) {
      return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(error)));
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "state directory ", state_dir,
        " is in use by another dafsd; stop it or give this one a --state-dir of its own"));
  }
  return std::unique_ptr<StateLock>(new StateLock(fd));
}

StateLock::~StateLock() { close(fd_); }

}  // namespace dafs::server
