// FUSE over io_uring for all workers of a mount: decides whether requests arrive by rings, and
// makes and starts them. Belongs to the main thread; each call blocks until the workers have done
// it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "fuse/mount/process/exit_code.h"
#include "fuse/mount/worker.h"
#include "fuse/operations/shared/mount_state.h"

namespace dafs::fuse {

class MountRings {
 public:
  // `state` must outlive this.
  explicit MountRings(MountState& state) : state_(state) {}
  MountRings(const MountRings&) = delete;
  MountRings& operator=(const MountRings&) = delete;

  using Workers = std::span<const std::unique_ptr<Worker>>;
  // Makes the rings if io_uring= permits it. Call before INIT: after an INIT that requests them,
  // the kernel delivers no request until they are registered.
  void Make(Workers workers);
  // Starts the rings, or drops them if the kernel does not offer io_uring. Call after INIT. Fails
  // only with io_uring=on.
  Outcome Start(Workers workers);
  // "io_uring", or "/dev/fuse" and the reason.
  std::string RequestsBy() const {
    return why_not_.empty() ? "io_uring" : "/dev/fuse (" + why_not_ + ")";
  }

 private:
  MountState& state_;
  std::string why_not_;  // why requests arrive on /dev/fuse; empty: by io_uring
};

}  // namespace dafs::fuse
