// Finds out whether a file or directory that the kernel opens has lost the name by which the kernel
// found it. The kernel caches names for a while; meanwhile the name may have been removed, or given
// to another file.
// Belongs to one worker's thread. Nothing blocks; the coroutine ends with its replies.
#pragma once

#include "fuse/cache/inode_table.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/shared/request_nodes.h"
#include "runtime/loop/task.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

// Whether the node has lost a name by which the kernel may have opened it. `attributes`: those that
// came with the open.
Task<bool> HasLostName(MountState& state, UserFiles& files, CallerIdentity user, InodeView node,
                       const wire::FileAttributes& attributes);

}  // namespace dafs::fuse
