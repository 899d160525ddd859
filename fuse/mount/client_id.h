// The client_id_string of a mount (3.1.1.3): the same again after a restart, so that the server
// knows whose state it holds, and never the same for two mounts at once. No other user of this
// machine can compute it: a part is made with a secret of the machine.
#pragma once

#include <string>

#include "fuse/options/options.h"
#include "runtime/unique_fd.h"

namespace dafs::fuse {

struct ClientId {
  // HOST NAME:MOUNT POINT/HASH, with clientid= for the host name; a keyed hash of all that names
  // it.
  std::string text;
  UniqueFd lock;  // holds the lock file that makes it ours, as long as the mount lives
};

struct ClientIdPlaces {
  std::string locks;   // a directory that need not outlive a restart of the machine
  std::string secret;  // one that should (fuse/mount/client_secret.h)
};

// Takes the first id that no other mount holds: the n-th mount of one export on one directory
// (a mount over a mount) gets "#n". Where a directory cannot be written, the id is unique but does
// not outlive the process.
ClientId TakeClientId(const Options& options, const ClientIdPlaces& places);

}  // namespace dafs::fuse
