// A name in a directory that the kernel knows.
#pragma once

#include <cstdint>
#include <string>

namespace dafs::fuse {

struct Place {
  uint64_t parent = 0;  // the directory's node
  std::string name;

  friend bool operator==(const Place&, const Place&) = default;
};

}  // namespace dafs::fuse
