// Locks: GETLK, SETLK, SETLKW, and the IOCTL of locks. Spec: 6.5.18, 6.5.19, 6.5.20;
// docs/decisions.md, Locks; docs/fuse.md 7, 8.
//
// A lock of flock(2) belongs to the open file description. Its owner is the OPEN of the kernel's
// handle. Owners of record locks have OPENs of their own; see record_lock_owners.h.
// Belongs to one worker's thread. Each public function is called by Operations::Serve and answers
// `call`.
#pragma once

#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

class LockOperations {
 public:
  explicit LockOperations(Context& context)
      : context_(context), state_(context.state), files_(context.files) {}

  Task<void> Getlk(Call& call);
  Task<void> Setlk(Call& call);  // and SETLKW
  Task<void> Ioctl(Call& call);  // runtime/files/lock_ioctl.h; ENOTTY for any other command

 private:
  struct Request;
  Task<void> SetFlock(Call& call, const Request& request);
  Task<void> AbortFlock(Call& call, const Request& request);
  Task<void> Unlock(Call& call, const Request& request);
  Task<void> SetRecordLock(Call& call, const Request& request);
  Task<void> UnlockRecords(Call& call, const Request& request);
  Task<absl::StatusOr<client::LockAnswer>> TakeLock(Call& call, const Request& request,
                                                    const client::Identity& user,
                                                    const client::LockOwner& owner);
  Task<bool> Reply(Call& call, const OpenState& open,
                   const absl::StatusOr<client::LockAnswer>& answer);
  Task<void> ShowWhatIsUnderLock(Call& call, const OpenState& open,
                                 const client::LockAnswer& answer);

  Context& context_;
  MountState& state_;
  UserFiles& files_;
};

}  // namespace dafs::fuse
