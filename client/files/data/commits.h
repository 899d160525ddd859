// Makes written data stable, and reports data that is lost. Threads and blocking:
// client/files/files.h. Spec: 6.5.8 (COMMIT), 6.5.38 (unstable writes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/recovery/commit_schedule.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class CommitOperations : public OperationGroup {
 public:
  // `schedule` outlives this.
  CommitOperations(const OperationContext& context, CommitSchedule& schedule)
      : OperationGroup(context), schedule_(schedule) {}

  // Makes the data written so far stable. Sends COMMIT of the range (size 0: to the end), or of the
  // whole file if NeedsCommit. Writes that the server has lost are written again first. The error
  // is the server's; TakeFailure says whether data is lost.
  Task<absl::StatusOr<wire::Verifier>> Commit(const Identity& user, const wire::FileHandle& file,
                                              uint64_t offset, uint32_t size);
  // Why data of `file` could not be made stable and was dropped, by this or another worker. Returns
  // each failure once: the caller reports it to every open of the file. Cheap while no file has a
  // failure.
  absl::Status TakeFailure(const wire::FileHandle& file);
  // Whether written data of `file` is not yet on the server's stable storage.
  bool NeedsCommit(const wire::FileHandle& file) const;
  // Commits `file` in the background, ahead of the other files that wait to be committed. Returns
  // after the COMMIT, even if it failed: TakeFailure says whether data is lost.
  Task<void> CommitNow(const wire::FileHandle& file);
  // Checks whether `file`, which may have been removed, still exists, with the next request that is
  // sent. If it does not, drops its uncommitted data without a COMMIT. Does not wait.
  void DropIfRemoved(const wire::FileHandle& file);
  // Commits everything that this worker has written, at the end of the mount. Runs `done` after
  // that, perhaps before this returns.
  void CommitAll(std::function<void()> done);
  // Commits everything that the mount keeps, and what this worker has written. Does not wait: see
  // all_committed.
  void CommitSoon();
  bool all_committed() const { return schedule_.empty(); }
  // Commits data that other users wrote to `file`, before `user` changes its permissions. If the
  // server lost that data later, those users might not be allowed to write it again (WIRE R64); the
  // file's owner is. TakeFailure returns the result.
  Task<void> CommitOfOthers(const Identity& user, const wire::FileHandle& file);

 private:
  Task<void> AskForRemoved();
  Task<bool> IsRemoved(const wire::FileHandle& file);

  CommitSchedule& schedule_;
  bool ending_ = false;                   // CommitAll was called
  std::deque<wire::FileHandle> removed_;  // perhaps removed; not checked yet
  size_t asking_ = 0;                     // coroutines that check
};

}  // namespace dafs::client
