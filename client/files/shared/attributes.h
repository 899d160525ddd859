// Attributes of a file and of its file system, and the access that a user has.
// Spec: 6.5.2, 6.5.12, 6.5.13, 6.5.35.
// Threads and blocking: client/files/files.h.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/state/node.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class AttributeOperations : public OperationGroup {
 public:
  explicit AttributeOperations(const OperationContext& context) : OperationGroup(context) {}

  Task<absl::StatusOr<Attributes>> GetAttributes(const Identity& user,
                                                 const wire::FileHandle& file);
  // Sets what is valid in `attributes`, and returns the attributes after that. With nothing valid
  // it acts as a chown(2) that changes neither owner nor group. `state_id` zero: no open; the
  // server then checks a new size against other clients' shares.
  Task<absl::StatusOr<Attributes>> SetAttributes(const Identity& user, const wire::FileHandle& file,
                                                 const wire::StateId& state_id,
                                                 const wire::FileAttributes& attributes);
  // `access`: wire::kAccess... bits. Returns those that the caller has.
  Task<absl::StatusOr<uint32_t>> Access(const Identity& user, const wire::FileHandle& file,
                                        uint32_t access);
  // Whether the server's attributes are those valid in `attributes`, by VERIFY, or by NVERIFY,
  // whose answer means the same. At least one is valid. INVAL: an attribute that cannot be read.
  // Spec: 6.5.23, 6.5.37.
  Task<absl::StatusOr<bool>> Verify(const Identity& user, const wire::FileHandle& file,
                                    const wire::FileAttributes& attributes);
  Task<absl::StatusOr<bool>> NVerify(const Identity& user, const wire::FileHandle& file,
                                     const wire::FileAttributes& attributes);
  Task<absl::StatusOr<wire::FsAttributes>> StatFs(const Identity& user,
                                                  const wire::FileHandle& file);
  // Fetches the alternate locations that are due (client/state/server/failover.h). Those of a file
  // system for which the server returns none do not change.
  Task<void> FetchLocations();
};

}  // namespace dafs::client
