// The last error of each thread, and the errno values of the C interface (client/c/dafs.h).
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace dafs::c {

// A positive errno value; 0 for OK.
int ErrnoOf(const absl::Status& status);

// Records `status`, which is not OK, for dafs_error. Returns the negative errno value.
int Fail(const absl::Status& status);
// The same for an error of the interface itself.
int Fail(int error, std::string_view message);

struct LastError {
  std::string message;
  uint32_t status = 0;
};
// Valid until the next Fail of this thread.
const LastError& Last();

}  // namespace dafs::c
