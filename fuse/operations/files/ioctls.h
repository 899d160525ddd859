// IOCTL: locks that flock(2) cannot request (runtime/files/lock_ioctl.h), and where a file is at
// the server (runtime/files/direct_ioctl.h). ENOTTY for any other.
//
// Belongs to one worker's thread. Called by Operations::Serve; answers `call`.
#pragma once

#include "fuse/files/user_files.h"
#include "fuse/operations/files/locks.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class IoctlOperations {
 public:
  // Both must outlive it.
  IoctlOperations(Context& context, LockOperations& locks)
      : state_(context.state), files_(context.files), locks_(locks) {}

  Task<void> Ioctl(Call& call);

 private:
  Task<void> LocateFile(Call& call, uint64_t handle, uint32_t room);

  MountState& state_;
  UserFiles& files_;
  LockOperations& locks_;
};

}  // namespace dafs::fuse
