// Attributes: GETATTR, STATX, SETATTR, ACCESS. Spec: 6.5.2, 6.5.13, 6.5.35.
// Belongs to one worker's thread. Each function is called by Operations::Serve and answers `call`.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "fuse/cache/inode_table.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/root_status.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/shared/request_nodes.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

class AttributeOperations {
 public:
  AttributeOperations(Context& context, RootStatus& root)
      : context_(context), root_(root), state_(context.state), files_(context.files) {}

  Task<void> Getattr(Call& call);  // and STATX
  Task<void> Setattr(Call& call);
  Task<void> Access(Call& call);

 private:
  using Attributes = absl::StatusOr<client::Attributes>;
  Task<Attributes> SetSize(CallerIdentity user, InodeView node, wire::FileAttributes set);
  Task<Attributes> TakeSetIdBits(const Call& call, CallerIdentity user, InodeView node,
                                 absl::Status refused);
  bool ReplyGone(Call& call);
  Task<void> DropOlderPages(InodeView node, bool sets_size);

  Context& context_;
  RootStatus& root_;
  MountState& state_;
  UserFiles& files_;
};

}  // namespace dafs::fuse
