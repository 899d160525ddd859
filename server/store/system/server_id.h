// The id of this server, by which clients know that two addresses lead to one server: the file
// `server-id` in the state directory. Spec: WIRE 9.5 (SERVER_IDENTITY).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// Returns the id in `state_dir`/server-id: 32 hexadecimal digits and a newline. Creates a random
// one if there is none, or if the content is damaged, which is logged. Blocks on the disk. Errors:
// kFailedPrecondition (the file cannot be read or made), kInternal.
absl::StatusOr<wire::ServerId> LoadOrCreateServerId(const std::string& state_dir);

}  // namespace dafs::server
