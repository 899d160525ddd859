// Ranges of files: FALLOCATE, LSEEK, COPY_FILE_RANGE, by the private procedures 1005 to 1007. If
// the server does not have them, LSEEK and COPY_FILE_RANGE fail with ENOSYS. The kernel remembers
// that and uses another way. FALLOCATE fails with EOPNOTSUPP, since another mode may still work.
// Belongs to one worker's thread. Each function is called by Operations::Serve and answers `call`.
#pragma once

#include "client/files/files.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class RangeOperations {
 public:
  explicit RangeOperations(Context& context)
      : context_(context), state_(context.state), files_(context.files) {}

  Task<void> Fallocate(Call& call);
  Task<void> Lseek(Call& call);
  Task<void> CopyFileRange(Call& call);

 private:
  Context& context_;
  MountState& state_;
  UserFiles& files_;
};

}  // namespace dafs::fuse
