// Counts what a directory contains.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

#include "server/store/system/identity.h"

namespace dafs::server {

// The number of entries of `directory`, as the process's own user sees it; 0 if it does not exist.
inline size_t FilesIn(const std::string& directory) {
  const ScopedOwnIdentity own;
  std::error_code error;
  const std::filesystem::directory_iterator entries(directory, error);
  return error ? 0 : static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace dafs::server
