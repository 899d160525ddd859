// Checks a state directory before a server uses it: it must exist, belong to the server's user, and
// be out of reach of clients. A user who has the handle key can forge filehandles of every file of
// the server. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/store/objects/export.h"

namespace dafs::server {

// Returns OK if `state_dir` is a directory of the process's user, no other user can write it, and
// the same holds for the files in it. Otherwise kFailedPrecondition, with the reason and the
// remedy. Accesses the state directory only.
absl::Status CheckStateDir(const std::string& state_dir);

// Returns OK if no client of `exported` can reach `state_dir`, neither by its path nor by another
// mount of its file system. Otherwise as CheckStateDir. Resolves the path of the export, so it may
// block on the file systems of that path.
absl::Status CheckOutOfReach(const std::string& state_dir, const Export& exported);

// The same for the directory of the audit log `file`, an absolute path: a client could change what
// is recorded about it.
absl::Status CheckAuditOutOfReach(const std::string& file, const Export& exported);

}  // namespace dafs::server
