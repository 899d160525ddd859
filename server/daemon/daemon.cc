#include "server/daemon/daemon.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runtime/files/null_streams.h"
#include "runtime/log/log.h"

namespace dafs::server {
namespace {

// In the parent: one byte means that the child serves; end of file means that it has ended.
[[noreturn]] void AwaitChild(int pipe_fd) {
  char byte;
  ssize_t got;
  do {
    got = read(pipe_fd, &byte, 1);
  } while (got < 0 && errno == EINTR);
  _exit(got == 1 ? 0 : 1);
}

}  // namespace

UniqueFd Daemon::Fork() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    std::perror("dafsd: pipe");
    _exit(1);
  }
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("dafsd: fork");
    _exit(1);
  }
  if (child > 0) {
    write_end.Close();
    AwaitChild(read_end.get());
  }
  setsid();
  if (chdir("/") != 0) std::perror("dafsd: chdir /");
  return write_end;
}

void Daemon::Ready() {
  RedirectStreamsToNull();
  const char byte = 1;
  [[maybe_unused]] ssize_t written = write(pipe_.get(), &byte, 1);
  pipe_.Close();
}

void NotifyServiceManager(std::string_view state) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr) return;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(name);
  if ((name[0] != '/' && name[0] != '@') || length >= sizeof(address.sun_path)) {
    LogWarning(absl::StrCat("NOTIFY_SOCKET=", name, ": not the name of a socket; it is ignored"));
    return;
  }
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';  // an abstract name, without a terminating NUL
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                            reinterpret_cast<const sockaddr*>(&address), size) < 0) {
    LogWarning(absl::StrCat("NOTIFY_SOCKET=", name, ": ", std::strerror(errno),
                            "; the service manager is not notified that dafsd runs"));
  }
}

absl::Status PidFile::Write(const std::string& path, std::unique_ptr<PidFile>* file) {
  const UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  const std::string text = absl::StrCat(getpid(), "\n");
  const bool written =
      fd.valid() && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written) {
    return absl::FailedPreconditionError(absl::StrCat("pid file ", path, ": ", std::strerror(errno),
                                                      "; name another with --pid-file"));
  }
  file->reset(new PidFile(path));
  return absl::OkStatus();
}

// A standby may have taken over and written the file since this server gave up its state directory.
PidFile::~PidFile() {
  std::ifstream file(path_);
  pid_t pid = 0;
  if (file >> pid && pid == getpid()) unlink(path_.c_str());
}

}  // namespace dafs::server
