// Open files: OPEN, CREATE, TMPFILE, RELEASE. Spec: 6.5.7, 6.5.24; WIRE 9.4, R15 (OPEN_HANDLE).
// Belongs to one worker's thread. Each function is called by Operations::Serve and answers `call`.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/files/files.h"
#include "fuse/cache/directories/dentry_name.h"
#include "fuse/cache/inode_table.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/shared/request_nodes.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class OpenOperations {
 public:
  explicit OpenOperations(Context& context)
      : context_(context), state_(context.state), files_(context.files) {}

  Task<void> Open(Call& call);
  Task<void> Create(Call& call);
  Task<void> Tmpfile(Call& call);
  Task<void> Release(Call& call);

 private:
  Task<void> ReplyLocal(Call& call, const client::OpenFile& file, uint32_t flags,
                        CallerIdentity user);
  bool InvalidateOlder(Call& call, const client::OpenFile& file, const OwnChanges::Moment& asked,
                       absl::Time asked_at);
  Task<void> ReplyNotCreated(Call& call, CallerIdentity user, InodeView parent,
                             std::string_view name, uint32_t flags, absl::Status failed);
  Task<void> ReplyCreated(Call& call, const client::OpenFile& file, DentryName dentry,
                          uint32_t flags, CallerIdentity user);

  Context& context_;
  MountState& state_;
  UserFiles& files_;
};

}  // namespace dafs::fuse
