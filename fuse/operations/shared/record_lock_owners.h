// The opens at the server that the owners of record locks have (fuse/files/lock_owners.h): made at
// an owner's first lock, closed when no call uses the owner and it has no locks.
// Belongs to one worker's thread. Nothing blocks; the coroutines end with their replies.
#pragma once

#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "fuse/files/lock_owners.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/shared/server_opens.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class RecordLockOwners {
 public:
  // All three must outlive it.
  RecordLockOwners(MountState& state, UserFiles& files, ServerOpens& opens)
      : state_(state), files_(files), opens_(opens) {}
  RecordLockOwners(const RecordLockOwners&) = delete;
  RecordLockOwners& operator=(const RecordLockOwners&) = delete;

  // Returns the owner's OPEN. Makes it at the owner's first lock. Extends its access if the owner
  // locks through a handle, `open`, with more access.
  Task<absl::StatusOr<client::LockOwner>> OpenFor(const OpenState& open, LockOwnerRef owner);
  // A call no longer uses `owner`.
  Task<void> Leave(LockOwnerRef owner);
  // A process has closed a descriptor of the file: releases its record locks.
  Task<void> End(LockOwners::Ended ended);

 private:
  Task<void> Close(LockOwnerRef owner);

  MountState& state_;
  UserFiles& files_;
  ServerOpens& opens_;
};

}  // namespace dafs::fuse
