// The client_id_string of a mount (3.1.1.3): the same again after a restart, so that the server
// knows whose state it holds, and never the same for two mounts at once.
#pragma once

#include <string>

#include "fuse/options.h"
#include "fuse/unique_fd.h"

namespace dafs::fuse {

struct ClientId {
  std::string text;  // machine id, server and a hash of export and mount point
  UniqueFd lock;     // holds the lock file that makes it ours, as long as the mount lives
};

// Takes the first id that no other mount holds: the n-th mount of one export on one directory
// (a mount over a mount) gets "#n". Without a writable `directory` the id is unique but does not
// outlive the process.
ClientId TakeClientId(const Options& options, const std::string& directory);

}  // namespace dafs::fuse
