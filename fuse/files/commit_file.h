// COMMIT for the callers that wait for it: fsync(2), and close(2) with `sync_on_close`. The client
// commits in the background by itself (client/recovery/commit_schedule.h).
// Spec: 6.5.8 (COMMIT). Belongs to one worker's thread. Never blocks.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_files.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

// Sends COMMIT at once for the file of `open`. OK: the data is safe, or it is lost and every open
// file reports that (WriteTracker::ErrorForFsync). After an error the data is still uncommitted,
// and no other open file reports the error.
Task<absl::Status> CommitFile(UserFiles& files, std::shared_ptr<OpenState> open);

// If data of the file was lost since the last call, records the error for all that have the file
// open. Returns the error.
absl::Status NoteLostData(UserFiles& files, const OpenState& open);

}  // namespace dafs::fuse
