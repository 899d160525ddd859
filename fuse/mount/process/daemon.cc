#include "fuse/mount/process/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/files/null_streams.h"
#include "runtime/log/log.h"

namespace dafs::fuse {
namespace {

// Reads to the end of the pipe; bounded, because a reason is one line.
std::string ReadAll(int fd) {
  std::string all;
  char chunk[512];
  while (all.size() < 8192) {
    ssize_t got = read(fd, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    all.append(chunk, static_cast<size_t>(got));
  }
  return all;
}

// Runs in the parent. The pipe carries one byte with the exit code, then the reason.
[[noreturn]] void WaitForChild(int fd) {
  std::string report = ReadAll(fd);
  if (report.empty()) {
    PrintReason({ExitCode::kInternal, "ended before the mount was ready"});
    _exit(static_cast<int>(ExitCode::kInternal));
  }
  Outcome outcome{static_cast<ExitCode>(report[0]), report.substr(1)};
  PrintReason(outcome);
  _exit(report[0]);
}

}  // namespace

void LeaveTerminal() {
  setsid();
  [[maybe_unused]] const int changed = chdir("/");
  RedirectStreamsToNull();
}

void PrintReason(const Outcome& outcome) {
  if (!outcome.reason.empty()) LogFailure("mount.dafs", outcome.reason);
}

Outcome Daemon::Start(bool foreground, Daemon* daemon) {
  if (foreground) return {};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return {ExitCode::kSystem, std::string("pipe: ") + std::strerror(errno)};
  }
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  pid_t child = fork();
  if (child < 0) return {ExitCode::kSystem, std::string("fork: ") + std::strerror(errno)};
  if (child > 0) {
    write_end.Close();
    WaitForChild(read_end.get());
  }
  signal(SIGPIPE, SIG_IGN);
  daemon->pipe_ = std::move(write_end);
  return {};
}

bool Daemon::Report(const Outcome& outcome) {
  reported_ = true;
  if (!pipe_.valid()) {
    PrintReason(outcome);
    return true;
  }
  std::string report(1, static_cast<char>(outcome.code));
  report += outcome.reason;
  ssize_t written = write(pipe_.get(), report.data(), report.size());
  if (outcome.ok()) LeaveTerminal();
  pipe_.Close();
  return written == static_cast<ssize_t>(report.size());
}

}  // namespace dafs::fuse
