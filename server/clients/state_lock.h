// Keeps two servers, in one process or two, from using one state directory.
// Spec: docs/decisions.md, Server (state directory).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/files/unique_fd.h"

namespace dafs::server {

// Held from Acquire to destruction. The kernel releases the lock when the process ends.
class StateLock {
 public:
  // Creates the file `lock` in the directory, which must exist
  // (server/store/durable/state_dir_check.h). kFailedPrecondition: another server holds the lock,
  // or the directory is unusable; the message says which.
  static absl::StatusOr<std::unique_ptr<StateLock>> Acquire(const std::string& state_dir);
  // The same for a standby: if another server holds the lock, calls `on_wait` and waits without
  // limit until it does not.
  static absl::StatusOr<std::unique_ptr<StateLock>> Await(const std::string& state_dir,
                                                          absl::AnyInvocable<void()> on_wait);
  // Requests the lock again through a descriptor that holds it, which its file system answers. An
  // error: the lock is lost, for example because another machine has evicted this one. Blocks while
  // the file system hangs.
  static absl::Status Confirm(int fd);
  int fd() const { return fd_.get(); }
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  explicit StateLock(UniqueFd fd) : fd_(std::move(fd)) {}
  const UniqueFd fd_;
};

}  // namespace dafs::server
