#include "server/clients/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::server {
namespace {

absl::Status LockFailure(const std::string& path, int error, std::string_view remedy = "") {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", std::strerror(error), Text(remedy)));
}

std::string LockPath(const std::string& state_dir) { return absl::StrCat(state_dir, "/lock"); }

absl::StatusOr<UniqueFd> OpenLockFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.get() < 0)
    return LockFailure(path, errno, "; the state directory must be writable for dafsd");
  return fd;
}

// flock(2), not fcntl(2): it also separates two servers in one process. Returns 0 or an errno.
int Flock(int fd, int operation) {
  while (flock(fd, operation) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Whether the file of `fd` still has this name.
bool IsNamed(int fd, const std::string& path) {
  struct stat locked, named;
  return fstat(fd, &locked) == 0 && lstat(path.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateLock>> StateLock::Acquire(const std::string& state_dir) {
  const std::string path = LockPath(state_dir);
  ASSIGN_OR_RETURN(UniqueFd fd, OpenLockFile(path));
  const int error = Flock(fd.get(), LOCK_EX | LOCK_NB);
  if (error == EWOULDBLOCK) {
    return absl::FailedPreconditionError(absl::StrCat(
        "state directory ", state_dir,
        " is in use by another dafsd; stop it, or give this one --standby or a --state-dir of its "
        "own"));
  }
  if (error != 0) return LockFailure(path, error);
  return std::unique_ptr<StateLock>(new StateLock(std::move(fd)));
}

absl::StatusOr<std::unique_ptr<StateLock>> StateLock::Await(const std::string& state_dir,
                                                            absl::AnyInvocable<void()> on_wait) {
  const std::string path = LockPath(state_dir);
  ASSIGN_OR_RETURN(UniqueFd fd, OpenLockFile(path));
  int error = Flock(fd.get(), LOCK_EX | LOCK_NB);
  if (error == EWOULDBLOCK) {
    on_wait();
    error = Flock(fd.get(), LOCK_EX);
  }
  if (error != 0) return LockFailure(path, error);
  if (IsNamed(fd.get(), path)) return std::unique_ptr<StateLock>(new StateLock(std::move(fd)));
  // Another server may hold the file that has the name now.
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": the file was replaced while this dafsd was waiting for it; start it again"));
}

absl::Status StateLock::Confirm(int fd) {
  const int error = Flock(fd, LOCK_EX | LOCK_NB);
  if (error == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("its lock cannot be confirmed: ", std::strerror(error)));
}

}  // namespace dafs::server
