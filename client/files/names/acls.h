// ACLs. Spec: 4.4.3, 6.1.5 (ACL), 6.5.13, 6.5.14, 6.5.35, 6.5.36.
// Threads and blocking: client/files/files.h.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/messages/messages.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class AclOperations : public OperationGroup {
 public:
  explicit AclOperations(const OperationContext& context) : OperationGroup(context) {}

  // The ACL attribute. NOTSUPP (kUnimplemented): there is none, or not of this kind.
  Task<absl::StatusOr<std::vector<wire::Ace>>> GetAcl(const Identity& user,
                                                      const wire::FileHandle& file);
  Task<absl::Status> SetAcl(const Identity& user, const wire::FileHandle& file,
                            std::vector<wire::Ace> acl);

 private:
  Task<absl::Status> SendAcl(const Identity& user, const wire::FileHandle& file,
                             std::vector<wire::Ace> acl);
  Task<absl::StatusOr<wire::FileAttributes>> GetAclDirect(const Identity& user,
                                                          const wire::FileHandle& file);
};

}  // namespace dafs::client
