// Makes written data stable, and reports data that is lost.
// Spec: 6.5.8 (COMMIT), 6.5.38 (unstable writes).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/operations.h"
#include "client/state/identity.h"
#include "runtime/task.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class CommitOperations : public OperationGroup {
 public:
  explicit CommitOperations(const OperationContext& context) : OperationGroup(context) {}

  // Makes the data written so far stable. Sends COMMIT of the range (size 0: to the end), or of the
  // whole file if the client keeps unstable writes of it (client/state/uncommitted.h). Writes that
  // the server has lost are written again first. The error is the server's; TakeFailure says
  // whether data is lost. `can_wait`: as for Close.
  dat::Task<absl::StatusOr<wire::Verifier>> Commit(const Identity& who,
                                                   const wire::FileHandle& file, uint64_t offset,
                                                   uint32_t size, bool can_wait = false);
  // Why data of `file` could not be made stable and was dropped, by this or another worker. Returns
  // each failure once: the caller reports it to every open of the file. Cheap while no file has a
  // failure.
  absl::Status TakeFailure(const wire::FileHandle& file);
  // Checks whether `file` still exists, with the next request that is sent. If it does not, drops
  // its uncommitted data. Also returns false if that is unknown.
  dat::Task<bool> DropIfRemoved(wire::FileHandle file);
  // Commits data that other users wrote to `file`, before `who` changes its permissions. If the
  // server lost that data later, those users might not be allowed to write it again (WIRE R64); the
  // file's owner is. TakeFailure returns the result.
  dat::Task<void> CommitOfOthers(const Identity& who, const wire::FileHandle& file);
};

}  // namespace dafs::client
