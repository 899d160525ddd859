// Checks a state directory before a server uses it: it must exist, belong to the server's user, and
// be out of reach of clients. A user who has the handle key can forge filehandles of every file of
// the server. Any thread. Accesses the state directory and resolves the paths of the exports. If a
// file system of these paths hangs, waits for it and logs that (StallReport).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/store/objects/export.h"

namespace dafs::server {

// Returns OK if `state_dir` is a directory of the process's user, no other user can write it, the
// same holds for the files in it, and no client of `exports` can reach it, neither by its path nor
// by another mount of its file system. Otherwise kFailedPrecondition, with the reason and the
// remedy.
absl::Status CheckStateDir(const std::string& state_dir, const std::vector<Export>& exports);

}  // namespace dafs::server
