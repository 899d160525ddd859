// Operations on ranges of a file other than reading and writing: allocate, find data and holes,
// copy. They use the private procedures 1005 to 1007 (wire/messages/ranges.h). kUnimplemented if
// the server lacks them, or if its file system does not support the operation.
// Threads and blocking: client/files/files.h.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/state/data/data_results.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/messages/messages.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class RangeOperations : public OperationGroup {
 public:
  explicit RangeOperations(const OperationContext& context) : OperationGroup(context) {}

  // fallocate(2). FBIG, NOSPC, DQUOT, INVAL.
  Task<absl::Status> Allocate(const Identity& user, const wire::FileHandle& file,
                              const wire::StateId& state_id, wire::AllocateMode mode,
                              uint64_t offset, uint64_t length);
  // Returns the first offset, from `offset` on, that is data, or is in a hole. NXIO: there is none.
  Task<absl::StatusOr<uint64_t>> Seek(const Identity& user, const wire::FileHandle& file,
                                      const wire::StateId& state_id, wire::SeekWhat what,
                                      uint64_t offset);
  // Copies at the server, to stable storage (COMMIT). The client has no data to write again, so it
  // repeats a copy that the server loses before COMMIT. XDEV: the server cannot copy between these
  // two files.
  Task<absl::StatusOr<CopyResult>> CopyRange(const Identity& user, const wire::FileHandle& source,
                                             const wire::StateId& source_state_id,
                                             uint64_t source_offset, const wire::FileHandle& file,
                                             const wire::StateId& state_id, uint64_t offset,
                                             uint64_t length);
};

}  // namespace dafs::client
