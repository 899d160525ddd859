// Directories: OPENDIR, READDIR, READDIRPLUS, RELEASEDIR, FSYNCDIR. Spec: 6.5.29, 6.5.30.
// The server does not list "." and "..". They are added here, at the offsets 1 and 2, which are
// never cookies of entries. A listing is read in chunks much larger than the kernel's requests.
// Attributes in a chunk are used only if nothing newer is known of the node. While programs request
// ACLs after a listing, as ls -l does, chunks include ACLs, and files without one are remembered.
// If the kernel has all names of a directory and their attributes under promises, the mount lists
// it from what it knows (WholeDirectories). Belongs to one worker's thread. Each public function is
// called by Operations::Serve and answers `call`.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "client/state/node.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_files.h"
#include "fuse/kernel/directory_answer.h"
#include "fuse/operations/context.h"
#include "fuse/operations/mount_state.h"
#include "fuse/operations/request_nodes.h"
#include "fuse/request/call.h"
#include "runtime/task.h"

namespace dafs::fuse {

class DirectoryOperations {
 public:
  explicit DirectoryOperations(Context& context)
      : context_(context), state_(context.state), files_(context.files) {}

  Task<void> Opendir(Call& call);
  Task<void> Readdir(Call& call);  // and READDIRPLUS
  Task<void> Releasedir(Call& call);
  Task<void> Fsyncdir(Call& call);

 private:
  using Chunk = std::shared_ptr<const DirectoryChunk>;
  Task<absl::StatusOr<Chunk>> ReadChunk(std::shared_ptr<DirectoryState> directory, uint64_t cookie,
                                        bool attributes, client::Attributes* after = nullptr);
  Chunk KnownHere(const InodeView& node);
  // Adds an open directory to the table, and removes it. Open returns its handle.
  uint64_t Open(std::shared_ptr<DirectoryState> directory);
  void Close(uint64_t fh);
  bool IsAclKnown(const InodeView& object) const;
  void NoteWhole(DirectoryState& directory, const DirectoryChunk& chunk, uint64_t listing);
  bool ReplyFromListing(Call& call, const InodeView& node, const CallerIdentity& user);
  Chunk CurrentChunk(DirectoryState& directory, uint64_t offset, bool plus);
  void AddDots(DirectoryAnswer& answer, const DirectoryState& directory, uint64_t offset,
               bool plus);
  bool AddEntry(const Call& call, DirectoryAnswer& answer, const DirectoryState& directory,
                const DirectoryChunk& chunk, const DirectoryChunk::Entry& entry, bool plus);
  void AddNode(const Call& call, DirectoryAnswer& answer, const DirectoryState& directory,
               const DirectoryChunk& chunk, const DirectoryChunk::Entry& entry, uint64_t ino);

  Context& context_;
  MountState& state_;
  UserFiles& files_;
  // Whether the directory that was released last had been listed. If so, OPENDIR reads the first
  // entries, because it sends a request anyway. A program that only syncs a directory reads none.
  bool last_was_listed_ = true;
};

}  // namespace dafs::fuse
