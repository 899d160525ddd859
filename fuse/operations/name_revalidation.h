// Finds out whether a file or directory that the kernel opens has lost the name by which the kernel
// found it. The kernel caches names for a while; meanwhile the name may have been removed, or given
// to another file.
// Belongs to one worker's thread. Nothing blocks; the coroutines end with their replies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/files/files.h"
#include "fuse/cache/inode_table.h"
#include "fuse/operations/mount_state.h"
#include "fuse/operations/request_nodes.h"
#include "runtime/task.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

class NameRevalidation {
 public:
  // Both must outlive it.
  NameRevalidation(MountState& state, client::Files& files) : state_(state), files_(files) {}
  NameRevalidation(const NameRevalidation&) = delete;
  NameRevalidation& operator=(const NameRevalidation&) = delete;

  // A running lookup of names. Shared by the call that waits for it and the coroutine that does it.
  struct Looking {
    Pending<bool> done;
  };
  // After changes or renames by this mount, the CHANGE of a file does not show whether another
  // client gave its name to another file. Therefore starts to look up the file's names, in parallel
  // with the OPEN that follows. Returns null if no name must be looked up.
  std::shared_ptr<Looking> LookAtLikelyOld(const CallerIdentity& who, const InodeView& node);

  // Whether the node has lost a name by which the kernel may have opened it. `attributes`: those
  // that came with the open.
  Task<bool> HasLostName(const CallerIdentity& who, const InodeView& node,
                         const wire::FileAttributes& attributes);

 private:
  Task<void> LookAtNames(CallerIdentity who, InodeView node, Places places,
                         std::optional<uint64_t> change, std::shared_ptr<Looking> looking);

  MountState& state_;
  client::Files& files_;
};

}  // namespace dafs::fuse
