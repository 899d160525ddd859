// The entries of a directory, in chunks that are much larger than the kernel's requests: read from
// the server, or listed from what the mount knows.
//
// While programs request ACLs after a listing, as ls -l does, chunks include ACLs, and files
// without one are remembered. If the kernel has all names of a directory and their attributes under
// promises, the mount lists it without a request (WholeDirectories). Spec: 6.5.29, 6.5.30.
// Belongs to one worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "client/state/node.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class DirectoryChunks {
 public:
  // "." and ".." have the offsets 1 and 2, which are never cookies of entries.
  static constexpr uint64_t kDotOffset = 1;
  static constexpr uint64_t kDotDotOffset = 2;

  explicit DirectoryChunks(Context& context) : state_(context.state), files_(context.files) {}

  using Chunk = std::shared_ptr<const DirectoryChunk>;
  // Reads the entries after `cookie`, with or without their attributes, and makes them the chunk of
  // `directory`. `after`, if not null, gets the attributes of the directory itself.
  // Errors: those of client/files/files.h; kDataLoss: a cookie that no entry may have.
  Task<absl::StatusOr<Chunk>> Read(std::shared_ptr<DirectoryState> directory, uint64_t cookie,
                                   bool attributes, client::Attributes* after = nullptr);
  // Returns the whole listing of a directory without a request, if the kernel has all names there
  // and their attributes, and all are promised; otherwise null. The kernel has checked that the
  // caller may read the directory. Entries have no attributes: the kernel keeps those that it has.
  Chunk KnownHere(const InodeView& node);
  // Returns the chunk of `directory` that a listing may continue with at `offset`; null: none, or
  // it is outdated. `plus`: entries need attributes.
  Chunk Current(DirectoryState& directory, uint64_t offset, bool plus);
  // Returns the position in `chunk` after `cookie`; nullopt: it is not in the chunk.
  static std::optional<size_t> PositionAfter(const DirectoryChunk& chunk, uint64_t cookie);

 private:
  bool IsAclKnown(const InodeView& object) const;
  void NoteWhole(DirectoryState& directory, const DirectoryChunk& chunk, uint64_t listing);

  MountState& state_;
  UserFiles& files_;
};

}  // namespace dafs::fuse
