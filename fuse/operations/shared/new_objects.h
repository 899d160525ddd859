// The mode of new objects in a directory that may have a default ACL.
// Spec: 6.5.25; docs/fuse.md 11.
// Belongs to the worker's thread. Nothing blocks.
#pragma once

#include <cstdint>

#include "client/files/files.h"
#include "fuse/cache/inode_table.h"
#include "fuse/operations/shared/context.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

// Returns the mode with which to create an object in `directory` for a caller with this umask.
Task<uint32_t> ModeOfNew(Context& context, const client::Identity& user, const InodeView& directory,
                         uint32_t mode, uint32_t umask);

}  // namespace dafs::fuse
