// The undo files: for each AUTORECOVERY lock under which something has changed, one file of the
// same file system with the old bytes, at the same offsets. It is in the hidden directory
// (server/store/objects/hidden_directory.h), and its name begins with a dot.
//
// Only the ranges that the database records are valid (undo_log.h). Other bytes are left from
// earlier locks or from an interrupted save.
//
// Blocks on the file system. Functions take the server's own privilege. Return 0 or an errno.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/store/objects/file_system.h"
#include "wire/protocol/lock_ranges.h"

namespace dafs::server {

class UndoFiles {
 public:
  // `tag`: distinguishes the files of this server from those of others that export the same file
  // system.
  explicit UndoFiles(std::string tag) : tag_(std::move(tag)) {}

  // Whether `fs` has a place for undo files.
  bool Offers(const FileSystem& fs) const;
  // Copies `ranges` of the file `fd` to the undo file `id`, which it creates if need be, and waits
  // until they are on the disk. Blocks are shared where the file system can share them. Large holes
  // are not copied, but moved from *ranges to *holes. `is_first`: the undo file has nothing yet.
  // Moves the position of `fd`.
  int Save(const FileSystem& fs, int64_t id, int fd, bool is_first, wire::LockRanges* ranges,
           wire::LockRanges* holes) const;
  // Copies `ranges` back to the file `fd`.
  int Restore(const FileSystem& fs, int64_t id, int fd,
              const std::vector<wire::LockRange>& ranges) const;
  // The file is not needed any more.
  void Remove(const FileSystem& fs, int64_t id) const;
  // Removes what earlier runs of this server have left: every file for which `is_needed` is false.
  void Tidy(const FileSystem& fs, absl::FunctionRef<bool(int64_t id)> is_needed) const;

 private:
  std::string NameOf(int64_t id) const;

  const std::string tag_;
};

}  // namespace dafs::server
