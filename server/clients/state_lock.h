// Keeps two servers, in one process or two, from using one state directory.
// Spec: docs/decisions.md, Server (state directory).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace dafs::server {

// Held from Acquire to destruction. The kernel releases the lock when the process ends.
class StateLock {
 public:
  // Creates the file `lock` in the directory, which must exist
  // (server/store/durable/state_dir_check.h). kFailedPrecondition: another server holds the lock,
  // or the directory is unusable; the message says which.
  static absl::StatusOr<std::unique_ptr<StateLock>> Acquire(const std::string& state_dir);
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  explicit StateLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace dafs::server
