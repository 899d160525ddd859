// The terms that the kernel and the mount have agreed on: before mount(2), and by INIT.
// InitResult is thread-safe, and only Await blocks. The other terms are set before the workers
// serve, and constant after that.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace dafs::fuse {

// The answer to the kernel's INIT. A worker answers, the main thread waits.
class InitResult {
 public:
  // The FUSE_... bits that were agreed on. Call before any other request is served.
  void Agree(uint64_t flags) { flags_ = flags; }
  uint64_t flags() const { return flags_; }

  // INIT was answered with `error` (errno; 0: the mount serves). Only the first call counts.
  void Answered(int error) {
    if (was_answered_.exchange(true)) return;
    error_ = error;
    answered_.Notify();
  }
  // Waits for Answered. Returns false if it was not called within `most`.
  bool Await(absl::Duration most) const { return answered_.WaitForNotificationWithTimeout(most); }
  // After Answered.
  int error() const { return error_; }

 private:
  std::atomic<uint64_t> flags_{0};
  std::atomic<int> error_{0};  // published by answered_
  std::atomic<bool> was_answered_{false};
  absl::Notification answered_;
};

struct KernelTerms {
  // Whether the kernel checks modes and ACLs before it sends a request; decided before mount(2).
  bool default_permissions = false;
  // The kernel has SELinux, and reads labels itself.
  bool selinux = false;
  // The workers have rings, and INIT requests io_uring.
  bool wants_io_uring = false;
  InitResult init = {};
};

}  // namespace dafs::fuse
