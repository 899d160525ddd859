// Becoming a daemon: the parent waits until its child serves, and says with its exit status whether
// it does; or the service manager learns it. Spec: daemon(7); systemd: Type=forking, or
// --foreground with Type=notify.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace dafs::server {

// The child's side of a fork made before any thread exists.
class Daemon {
 public:
  // Forks. The parent never returns: it exits with 0 when the child reports Ready, and with 1 when
  // the child ends without (which has then said why on standard error). Returns in the child, with
  // what the constructor takes.
  static int Fork();
  explicit Daemon(int pipe_fd) : pipe_fd_(pipe_fd) {}
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Lets the parent go and standard input, output and error with it.
  void Ready();

 private:
  int pipe_fd_;
};

// Reports to the service manager that the server serves: READY=1 to the datagram socket that
// NOTIFY_SOCKET names, as sd_notify(3) describes. Does nothing without that variable. A message
// that cannot be sent is logged; the manager then waits for its own time limit.
void NotifyServiceManager();

// A file with our process id, removed when destroyed.
class PidFile {
 public:
  static absl::Status Write(const std::string& path, std::unique_ptr<PidFile>* file);
  ~PidFile();
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;

 private:
  explicit PidFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace dafs::server
