// The directory at the root of a file system in which the server keeps what clients must not see:
// files that lost their last name while open (orphans.h), and undo files
// (server/store/holdings/undo/undo_files.h), whose names begin with a dot.
// Thread-safe. Blocks on the file system.
#pragma once

#include "runtime/files/unique_fd.h"
#include "server/store/objects/file_system.h"

namespace dafs::server {

// The name of the directory. At the root of a file system, clients can neither see nor use this
// name.
inline constexpr char kOrphanDirectory[] = ".dafsd-orphans";

// Opens the directory, and makes it if it is missing, as the server's own user. Not open if the
// file system refuses, or if another user can have made the directory.
UniqueFd OpenHiddenDirectory(const FileSystem& fs);

}  // namespace dafs::server
