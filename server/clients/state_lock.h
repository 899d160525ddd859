// Keeps two servers off one state directory, in this process or another. Spec: ARCHITECTURE
// "Server" (state directory).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace dafs::server {

// Held from Acquire to destruction; the kernel lets it go when the process dies.
class StateLock {
 public:
  // Creates the file `lock` in the directory, which exists (store/state_dir_check.h).
  // kFailedPrecondition: another server holds it, or the directory cannot be used; in words.
  static absl::StatusOr<std::unique_ptr<StateLock>> Acquire(const std::string& state_dir);
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  explicit StateLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace dafs::server
