// Directories: OPENDIR, READDIR, READDIRPLUS, RELEASEDIR, FSYNCDIR. Spec: 6.5.29, 6.5.30.
// Directory chunks (directory_chunks.h) have the entries, and directory_entries.h adds them to the
// answers. Belongs to one worker's thread. Each public function is called by Operations::Serve and
// answers `call`.
#pragma once

#include <cstdint>
#include <memory>

#include "fuse/files/open_files.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/names/directory_chunks.h"
#include "fuse/operations/names/directory_entries.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/shared/request_nodes.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class DirectoryOperations {
 public:
  explicit DirectoryOperations(Context& context)
      : context_(context), state_(context.state), files_(context.files) {}

  Task<void> Opendir(Call& call);
  Task<void> Readdir(Call& call);  // and READDIRPLUS
  Task<void> Releasedir(Call& call);
  Task<void> Fsyncdir(Call& call);
  // The kernel does not use the handle: removes the open directory.
  void Close(uint64_t fh);

 private:
  using Chunk = DirectoryChunks::Chunk;
  bool ReplyFromListing(Call& call, const InodeView& node, const CallerIdentity& user);
  Chunk FirstChunk(DirectoryState& directory, uint64_t fh, uint64_t offset, bool plus);
  void NoteListed(DirectoryState& directory, const DirectoryChunk& chunk, bool is_first,
                  bool is_empty);
  // Adds a directory that `call` has opened to the table. Returns its handle.
  uint64_t Open(const Call& call, std::shared_ptr<DirectoryState> directory);

  Context& context_;
  MountState& state_;
  UserFiles& files_;
  DirectoryChunks chunks_{context_};
  DirectoryEntries entries_{context_};
  // Whether the directory that was released last had been listed. If so, OPENDIR reads the first
  // entries, because it sends a request anyway. A program that only syncs a directory reads none.
  bool last_was_listed_ = true;
};

}  // namespace dafs::fuse
