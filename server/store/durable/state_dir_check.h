// What a state directory must be before a server uses it: there, its own, and out of reach of
// clients. With the handle key a user can forge filehandles of every file of the server. Any
// thread. Asks the file system of the state directory alone.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/store/objects/export.h"

namespace dafs::server {

// OK if `state_dir` is a directory of the process's user that no other user can write, with files
// of that kind in it, and no client of `exports` can reach it: neither by its path nor by another
// mount of its file system. Otherwise kFailedPrecondition, with the reason and the remedy.
absl::Status CheckStateDir(const std::string& state_dir, const std::vector<Export>& exports);

}  // namespace dafs::server
