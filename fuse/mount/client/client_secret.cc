#include "fuse/mount/client/client_secret.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/check.h"
#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"

namespace dafs::fuse {
namespace {

// Writes a secret to a temporary file and links it to `path` once it is complete and on the disk.
// If two mounts do this at the same time, link(2) keeps the file of the first.
void MakeSecret(const std::string& directory, const std::string& path) {
  mkdir(directory.c_str(), 0700);
  const std::string made = path + "." + std::to_string(getpid());
  unlink(made.c_str());
  UniqueFd file(open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return;
  const ClientSecret secret = RandomSecret();
  const bool whole = write(file.get(), secret.data(), secret.size()) == ssize_t{secret.size()} &&
                     fsync(file.get()) == 0;
  if (whole && link(made.c_str(), path.c_str()) == 0) {
    UniqueFd names(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (names.valid()) fsync(names.get());
  }
  unlink(made.c_str());
}

}  // namespace

ClientSecret RandomSecret() {
  ClientSecret secret;
  DAFS_CHECK(getrandom(secret.data(), secret.size(), 0) == ssize_t{secret.size()},
             "getrandom(2) failed");
  return secret;
}

std::optional<ClientSecret> KeptSecret(const std::string& directory) {
  const std::string path = directory + "/client-secret";
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  UniqueFd file(open(path.c_str(), kFlags));
  if (!file.valid() && errno == ENOENT) {
    MakeSecret(directory, path);
    file = UniqueFd(open(path.c_str(), kFlags));
  }
  if (!file.valid()) {
    const std::string why = std::strerror(errno);
    const std::string text = path + ": cannot be stored: " + why +
                             "; the server treats each mount as a new client, and locks of a mount "
                             "that was killed last until its lease ends; make " +
                             directory + " writable and mount again";
    geteuid() == 0 ? LogWarning(text) : LogInfo(text);  // users other than root never can
    return std::nullopt;
  }
  struct stat found;
  ClientSecret secret;
  const bool private_to_us = fstat(file.get(), &found) == 0 && S_ISREG(found.st_mode) &&
                             found.st_uid == geteuid() && (found.st_mode & 077) == 0;
  const bool whole = private_to_us && found.st_size == ssize_t{secret.size()} &&
                     read(file.get(), secret.data(), secret.size()) == ssize_t{secret.size()};
  if (whole) return secret;
  LogWarning(
      path +
      (private_to_us ? ": not a secret of 16 bytes" : ": other users may have read or written it") +
      ": it is not used, and the server treats each mount as a new client; remove the file and "
      "mount again");
  return std::nullopt;
}

}  // namespace dafs::fuse
