// A name in a directory that the kernel knows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace dafs::fuse {

struct Place {
  uint64_t parent = 0;  // the directory's node
  std::string name;

  friend bool operator==(const Place&, const Place&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const Place& place) {
    return H::combine(std::move(hash), place.parent, place.name);
  }
};

}  // namespace dafs::fuse
