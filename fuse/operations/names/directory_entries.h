// Adds the entries of a directory to the answer of READDIR or READDIRPLUS. The server does not list
// "." and "..", which are added here. Attributes in a chunk are used only if nothing newer is known
// of the node. Belongs to one worker's thread.
#pragma once

#include <cstdint>

#include "fuse/files/open_files.h"
#include "fuse/kernel/directory_answer.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"

namespace dafs::fuse {

class DirectoryEntries {
 public:
  explicit DirectoryEntries(Context& context) : context_(context), state_(context.state) {}

  // Adds "." and ".." to an empty answer, unless `offset` is after them.
  void AddDots(DirectoryAnswer& answer, const DirectoryState& directory, uint64_t offset,
               bool plus);
  // Adds an entry of `chunk`; with `plus`, its node too, whose lookup then counts. An entry whose
  // name no file can have is left out. Returns false if the answer is full.
  bool Add(const Call& call, DirectoryAnswer& answer, const DirectoryState& directory,
           const DirectoryChunk& chunk, const DirectoryChunk::Entry& entry, bool plus);

 private:
  void AddNode(const Call& call, DirectoryAnswer& answer, const DirectoryState& directory,
               const DirectoryChunk& chunk, const DirectoryChunk::Entry& entry, uint64_t ino);

  Context& context_;
  MountState& state_;
};

}  // namespace dafs::fuse
