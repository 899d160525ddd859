// Reads a file to its end, with a limit. Blocks; any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace dafs {

// Returns the content of `path`. `flags`: further ones of open(2). O_NONBLOCK does not wait for a
// writer of a FIFO. Files of /proc, which have no size, are read as well.
// An error of the system has its code and its name: kNotFound: there is no such file.
// kInvalidArgument: it has more than `most_bytes`.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t most_bytes,
                                          int flags = 0);

}  // namespace dafs
