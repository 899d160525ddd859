// The extended attributes of a new object, as far as they are known without a request.
// Spec: 6.5.25. Any thread. Nothing blocks.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "fuse/operations/shared/mount_state.h"

namespace dafs::fuse {

// Notes what is known of the extended attributes of `nodeid`, which was created in `directory` at
// or after `made`: it has no capability and no label, and no ACL if the directory has no default
// ACL.
void NoteNew(MountState& state, uint64_t nodeid, uint64_t directory, absl::Time made);

}  // namespace dafs::fuse
