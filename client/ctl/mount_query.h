// Requests of dafsctl to the mounts of this machine, by their control sockets
// (client/status/lease_keeper.h). Blocks for at most 5 s per mount, and for 5 s more while no
// program listens on the socket of a mount: after a kill, another one is about to.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/status/lease_keeper.h"

namespace dafs::client {

struct MountQuery {
  std::string mount_point;  // a path on the mount; empty: all mounts
  std::string directory = LeaseKeeperOptions().socket_directory;
};

// Returns the answers, one for each mount. Errors are one line for people: no mount answers, the
// path is on none, or only root may ask.
absl::StatusOr<std::vector<std::string>> AskMounts(const MountQuery& query,
                                                   const std::string& request);

// Runs `ask` with the socket of the mount that contains `query.mount_point`, and returns its
// result. Errors except kFailedPrecondition are replaced as those of AskMounts.
absl::Status AskMount(const MountQuery& query,
                      absl::FunctionRef<absl::Status(const std::string& socket)> ask);

// The sockets of all mounts, in the order of their names. Some may have no mount any more.
// kPermissionDenied: only root and the group dafs may see them.
absl::StatusOr<std::vector<std::string>> MountSockets(const std::string& directory);

}  // namespace dafs::client
