// Fencing lists: which clients, by their fence ids, may access a file or a file system.
// Spec: 4.4.4, 6.4.1, 6.4.2.
// Threads and blocking: client/files/files.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// One change of a list. WIRE 9.4 SET_FENCING_LIST has the table of its effects.
struct FenceChange {
  wire::FenceObject object = wire::FenceObject::kFile;
  wire::FenceAccess access = wire::FenceAccess::kAllow;
  wire::FenceUpdate update = wire::FenceUpdate::kAppend;
  std::vector<std::string> ids;  // 1 to 1024 bytes each, at most 1024
};

class FenceOperations : public OperationGroup {
 public:
  explicit FenceOperations(const OperationContext& context) : OperationGroup(context) {}

  // The ids that the list of `file` admits, or without one the list of its file system. Empty: it
  // has no list, and every client has access. NOT_AUTHORIZED: neither a trusted client nor the
  // owner of the file.
  Task<absl::StatusOr<std::vector<std::string>>> GetFence(const Identity& user,
                                                          const wire::FileHandle& file);
  // Changes the list of `file`, or of its file system. With kDeny it ends after every access that
  // the denied clients had begun, which may take as long as the disk of the server. Then no request
  // of theirs changes what is fenced, whatever they have sent. After an error the list may have
  // changed; the call may be repeated. INVAL: the list would become empty; NOT_AUTHORIZED: as
  // above, and for the list of a file system the owner of a file does not suffice.
  Task<absl::Status> SetFence(const Identity& user, const wire::FileHandle& file,
                              const FenceChange& change);
};

}  // namespace dafs::client
