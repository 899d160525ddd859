// What the store keeps in the server's state directory: the key of the filehandles and the number
// of this server instance. Files are 0600 and appear whole or not at all.
// To be used by one process at a time; that is the program's business (a lock on the directory).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace dafs::server {

using HandleKey = std::array<uint8_t, 32>;

// The key in `state_dir`/handle-key, made from the kernel's random numbers at the first start.
// Losing the file makes all filehandles invalid. Errors: kFailedPrecondition, kInternal.
absl::StatusOr<HandleKey> LoadOrCreateHandleKey(const std::string& state_dir);

// A number larger than at any start before, at least 1; recorded on stable storage before it is
// returned. State ids and write verifiers carry it, so that those of earlier instances are known
// for what they are (4.4.1.2, 6.5.38). Errors: kFailedPrecondition, kInternal.
absl::StatusOr<uint32_t> NextInstance(const std::string& state_dir);

}  // namespace dafs::server
