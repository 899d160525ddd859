// Becoming a daemon: the parent waits until its child serves, and reports the result with its exit
// status. With a service manager, that is notified instead.
// Spec: daemon(7); systemd: Type=forking, or --foreground with Type=notify.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "runtime/files/unique_fd.h"

namespace dafs::server {

// The child's side of a fork made before any thread exists.
class Daemon {
 public:
  // Forks. The parent never returns: it exits with 0 when the child reports Ready, and with 1 when
  // the child ends before that (the child has then printed the reason on standard error). In the
  // child, returns the argument for the constructor.
  static UniqueFd Fork();
  explicit Daemon(UniqueFd pipe) : pipe_(std::move(pipe)) {}

  // Lets the parent exit, and redirects standard input, output and error to /dev/null. Once.
  void Ready();

 private:
  UniqueFd pipe_;
};

// Reports to the service manager that the server serves, or waits as a standby: sends `state`, such
// as READY=1, to the datagram socket of NOTIFY_SOCKET, as sd_notify(3) describes. Does nothing
// without that variable. Logs a failure to send; the manager then waits until its own time limit.
void NotifyServiceManager(std::string_view state);

// A file with the process id. The destructor removes it, unless another process has written it
// since.
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
