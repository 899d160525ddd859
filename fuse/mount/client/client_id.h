// The client_id_string of a mount (3.1.1.3). It is the same after a restart, so that the server
// recognises the client whose state it holds. Two mounts never have the same one at the same time.
// Other users of this machine cannot compute it, because it contains a hash keyed with a secret.
#pragma once

#include <string>

#include "fuse/options/options.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

struct ClientId {
  // HOST NAME:MOUNT POINT/HASH. clientid= replaces the host name. HASH is a keyed hash of the
  // machine, the server, the export, the mount point and how the mount proves who it is.
  std::string text;
  UniqueFd lock;  // locks the id's lock file; kept open as long as the mount exists
};

struct ClientIdPlaces {
  std::string locks;  // directory of the lock files; may be lost when the machine restarts
  std::string
      secret;  // directory of the secret; should survive that (fuse/mount/client/client_secret.h)
};

// Takes the first id that no other mount holds. Several mounts of one export on one directory
// (a mount over a mount) are numbered "#1", "#2", ... from the second on. If a directory cannot be
// written, the id is unique, but differs after a restart of the process.
ClientId TakeClientId(const Options& options, const ClientIdPlaces& places);

}  // namespace dafs::fuse
