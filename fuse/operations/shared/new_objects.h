// New objects in a directory that may have a default ACL: their mode, and what is known of their
// extended attributes. Spec: 6.5.25; docs/fuse.md 11.
// Belongs to the worker's thread. Nothing blocks.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "client/files/files.h"
#include "fuse/cache/inode_table.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

// Returns the mode with which to create an object in `directory` for a caller with this umask.
Task<uint32_t> ModeOfNew(Context& context, const client::Identity& user, const InodeView& directory,
                         uint32_t mode, uint32_t umask);
// Notes what is known of the extended attributes of `nodeid`, which was created in `directory` at
// or after `made`: it has no capability and no label, and no ACL if the directory has no default
// ACL.
void NoteNew(MountState& state, uint64_t nodeid, uint64_t directory, absl::Time made);

}  // namespace dafs::fuse
