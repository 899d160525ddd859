// Whether the requests that the kernel sends again after a kill were all read (docs/restart.md).
// The kernel places them before all other requests, so the first other one that is read comes after
// the last of them (docs/fuse.md, 47). Thread-safe. Nothing blocks.
#pragma once

#include <atomic>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {

class ResentRequests {
 public:
  // The kernel was told to send requests again. Call before the first request is read.
  void Expect() { are_unread_.store(true, std::memory_order_relaxed); }
  // A worker has read a request. The worker may not have begun to carry it out.
  void Read(const fuse_in_header& header) {
    if (!are_unread_.load(std::memory_order_relaxed)) [[likely]]
      return;
    // These have queues of their own, or answer a notification.
    const bool overtakes = header.opcode == FUSE_FORGET || header.opcode == FUSE_BATCH_FORGET ||
                           header.opcode == FUSE_INTERRUPT || header.opcode == FUSE_NOTIFY_REPLY;
    if ((header.unique & kUniqueResent) == 0 && !overtakes) {
      are_unread_.store(false, std::memory_order_relaxed);
    }
  }
  // Whether some may not have been read.
  bool are_unread() const { return are_unread_.load(std::memory_order_relaxed); }

 private:
  // Publishes nothing: see WorkerRestart::CatchUp for what the workers do with the requests.
  std::atomic<bool> are_unread_{false};
};

}  // namespace dafs::fuse
