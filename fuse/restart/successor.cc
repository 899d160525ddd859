#include "fuse/restart/successor.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "fuse/restart/handover_record.h"
#include "runtime/files/unique_fd.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);

// Reads to the end of the pipe; bounded in size and time.
std::string ReadAll(int fd) {
  const absl::Time end = Loop::Now() + kPatience;
  std::string all;
  while (all.size() < 256) {
    pollfd wait = {.fd = fd, .events = POLLIN, .revents = 0};
    const auto left = static_cast<int>(absl::ToInt64Milliseconds(end - Loop::Now()));
    if (left <= 0 || poll(&wait, 1, left) <= 0) break;
    char some[128];
    const ssize_t got = read(fd, some, sizeof(some));
    if (got <= 0) break;
    all.append(some, static_cast<size_t>(got));
  }
  return all;
}

}  // namespace

std::string OwnProgram() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  std::string program(path, size > 0 ? static_cast<size_t>(size) : 0);
  // The guardian starts its own program as the last resort, also after that file was replaced.
  constexpr std::string_view kDeleted = " (deleted)";
  if (program.ends_with(kDeleted)) program.resize(program.size() - kDeleted.size());
  return program;
}

absl::Status CheckSuccessor(const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  std::string name = program;
  std::string flag = kRecordVersionFlag;
  char* const words[] = {name.data(), flag.data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::ErrnoToStatus(error, program);
  write_end.Close();
  const std::string said(absl::StripAsciiWhitespace(ReadAll(read_end.get())));
  kill(pid, SIGKILL);  // it has answered, or takes too long
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  const std::string wanted = absl::StrCat(HandoverRecord::kVersion);
  if (said == wanted) return absl::OkStatus();
  if (said.empty() || said.size() > 9) {
    return absl::FailedPreconditionError(
        absl::StrCat(program, " cannot continue a mount of another mount.dafs"));
  }
  return absl::FailedPreconditionError(absl::StrCat(program, " reads records of version ", said,
                                                    ", and this mount has version ", wanted,
                                                    ": unmount and mount again to change to it"));
}

}  // namespace dafs::fuse
