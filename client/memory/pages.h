// Sizes in whole pages, for the buffers of a session.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace dafs::client {

// Of this machine, in bytes.
inline size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// The least multiple of `unit` that is not less than `bytes`.
constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace dafs::client
