// Runs dafsd as a separate process that a test can kill. Waits until it serves, and for its end.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "wire/dat/address.h"

namespace dafs::server {

class DafsdProcess {
 public:
  // Starts `program --foreground arguments...` and waits until it serves.
  DafsdProcess(const std::string& program, std::vector<std::string> arguments) {
    int log[2];
    if (pipe2(log, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(log[1], STDERR_FILENO);
      std::vector<char*> argv;
      std::string name = program, foreground = "--foreground", no_socket = "--admin-socket=none";
      argv.push_back(name.data());
      argv.push_back(foreground.data());
      argv.push_back(no_socket.data());
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(log[1]);
    log_fd_ = log[0];
    AwaitServing();
  }
  ~DafsdProcess() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    AwaitEnd();
    if (log_fd_ >= 0) close(log_fd_);
  }
  DafsdProcess(const DafsdProcess&) = delete;
  DafsdProcess& operator=(const DafsdProcess&) = delete;

  // The TCP port it listens on. 0 if it failed to start: log() then has the reason.
  uint16_t port() const { return port_; }
  const std::string& log() const { return log_; }

  void Kill() {
    if (pid_ > 0) kill(pid_, SIGKILL);
  }
  // Waits for its end. Returns the signal that killed it, or 0.
  int AwaitEnd() {
    int status = 0;
    if (pid_ > 0) waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  void AwaitServing() {
    const std::string mark = "tcp:127.0.0.1:";
    char buffer[512];
    ssize_t n;
    while (port_ == 0 && (n = read(log_fd_, buffer, sizeof(buffer))) > 0) {
      log_.append(buffer, static_cast<size_t>(n));
      const size_t at = log_.find(mark);
      if (at != std::string::npos && log_.find('\n', at) != std::string::npos) {
        port_ = static_cast<uint16_t>(std::atoi(log_.c_str() + at + mark.size()));
      }
    }
  }

  pid_t pid_ = -1;
  int log_fd_ = -1;
  uint16_t port_ = 0;
  std::string log_;
};

}  // namespace dafs::server
