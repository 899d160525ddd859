// Reads files of passwords: those that only this process's user can access.
// Any thread. Blocks on the file system.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace dafs {

// Returns the contents of a regular file of at most `most_bytes`. kFailedPrecondition: it cannot be
// read, is larger, or other users can access it; the message names `path`, the reason and the
// remedy. The caller erases what is secret.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path, size_t most_bytes);

}  // namespace dafs
