// Opens at the server, or under a delegation, for the kernel's open files: made by OPEN, CREATE and
// locks, and closed. Spec: 6.5.7, 6.5.24; WIRE 9.4, R15 (OPEN_HANDLE).
// Belongs to one worker's thread. Nothing blocks; the coroutines end with their replies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "fuse/cache/inode_table.h"
#include "fuse/files/left_opens.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_files.h"
#include "fuse/kernel/protocol.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/shared/request_nodes.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

// Whether an open with these flags of open(2) writes, and whether it only appends.
bool OpensToWrite(uint32_t flags);
bool OpensToAppend(uint32_t flags);
// Whether it writes past the kernel's page cache.
bool BypassesPages(uint32_t flags);

class ServerOpens {
 public:
  // Both must outlive it.
  ServerOpens(MountState& state, UserFiles& files) : state_(state), files_(files) {}
  ServerOpens(const ServerOpens&) = delete;
  ServerOpens& operator=(const ServerOpens&) = delete;

  // Opens `node` for an open(2) with `flags`. `owner`: see OwnerNames::New. The result has no
  // state id if the server cannot open the file by its handle.
  Task<absl::StatusOr<client::OpenFile>> Open(const client::Identity& user, const InodeView& node,
                                              uint32_t flags, std::string owner);
  // Likewise under a delegation, without a request. nullopt: call Open.
  std::optional<client::OpenFile> OpenLocally(const client::Identity& user, const InodeView& node,
                                              uint32_t flags, std::string owner);

  // Adds the file that `call` has opened to the table. Returns the answer for the kernel. If the
  // request was sent again after a kill, drops what the killed process had opened for it.
  fuse_open_out Add(const Call& call, const client::OpenFile& file, uint64_t nodeid, uint32_t flags,
                    CallerIdentity user, bool keep_cache);
  // The kernel has released it. Call it before the answer.
  std::shared_ptr<OpenState> Release(uint64_t fh);
  // The request was sent again after a kill, and has opened nothing: closes what the killed process
  // had opened for it.
  Task<void> CloseLeft(LeftOpens::Left left);
  // The kernel has not accepted the answer: removes the open file and closes it.
  Task<void> Undo(uint64_t fh);
  // Closes it at the server. If its opener may not write the file without this open, commits its
  // data first: if the server lost that data later, it could not be written again.
  Task<void> Close(std::shared_ptr<OpenState> open);

 private:
  void DropUnanswered(const Call& call, const client::OpenFile& again);
  Task<absl::StatusOr<client::OpenFile>> OpenToAppend(const client::Identity& user,
                                                      const InodeView& node, uint32_t flags,
                                                      absl::Status refused);

  MountState& state_;
  UserFiles& files_;
};

}  // namespace dafs::fuse
