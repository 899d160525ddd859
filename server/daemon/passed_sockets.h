// Socket activation: a service manager listens in place of dafsd and passes its sockets, so that no
// client is refused while dafsd starts or restarts.
// Spec: sd_listen_fds(3): LISTEN_PID, LISTEN_FDS; the descriptors begin with 3.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "runtime/files/unique_fd.h"
#include "server/clients/options.h"

namespace dafs::server {

// Returns the sockets that were passed to this process, and replaces the TCP addresses of `listen`
// by theirs. Leaves `listen` as it is if there are none. Call once, before other threads exist and
// before other descriptors are opened. kInvalidArgument: one is not a listening TCP socket.
absl::StatusOr<std::vector<UniqueFd>> TakePassedSockets(std::vector<ListenAddress>& listen);

}  // namespace dafs::server
