// Extended attributes: GETXATTR, SETXATTR, LISTXATTR, REMOVEXATTR. Spec: 4.1.5, 6.5.25;
// docs/fuse.md 5, 11.
//
// wire/protocol/attribute_names.h maps the names. A name without a name space is refused, as on
// ext4; with noacl, so are the names of POSIX ACLs. "system.nfs4_acl" is the ACL attribute.
// Belongs to one worker's thread. Each public function is called by Operations::Serve and answers
// `call`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "fuse/cache/inode_table.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

class XattrOperations {
 public:
  explicit XattrOperations(Context& context)
      : context_(context), state_(context.state), files_(context.files) {}

  Task<void> Getxattr(Call& call);
  Task<void> Setxattr(Call& call);
  Task<void> Listxattr(Call& call);
  Task<void> Removexattr(Call& call);

 private:
  Task<absl::StatusOr<std::string>> GetValue(const client::Identity& user,
                                             const wire::FileHandle& file, std::string_view name);
  Task<void> LookForUsual(const client::Identity& user, const InodeView& node);
  Task<absl::Status> SetNfs4Acl(const client::Identity& user, const InodeView& node,
                                std::vector<wire::Ace> acl);
  bool IsNotSupported(std::string_view name) const;
  int ErrnoOfAbsent(std::optional<AbsentXattr> usual) const;
  void ReplyNoValue(Call& call, const InodeView& node, std::string_view name,
                    const absl::Status& status);

  Context& context_;
  MountState& state_;
  UserFiles& files_;
};

}  // namespace dafs::fuse
