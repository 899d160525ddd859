// Finds modules and helper programs of this version.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dafs {

// The path of `file`: beside the program or where it is installed. kFailedPrecondition: it is in
// neither place; the message begins with `purpose`. Thread-safe.
absl::StatusOr<std::string> FindInstalledFile(const std::string& file, const std::string& purpose);

}  // namespace dafs
