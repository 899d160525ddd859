// One request of dafsctl to dafsd, and its answer. A request is `[json ]WORD[ ARGUMENT]`.
// Called on the thread of the control socket. Does not wait for a file system.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/sockets/control_socket.h"
#include "server/admin/admin_view.h"

namespace dafs::server {

// kInvalidArgument: an unknown word; the message lists the words. kPermissionDenied: only root may
// change something. kNotFound: there is no such client.
absl::StatusOr<std::string> AnswerAdmin(const AdminView& view,
                                        const ControlSocket::Request& request);

}  // namespace dafs::server
