// A name in a directory that the kernel knows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace dafs::fuse {

struct DentryName {
  uint64_t parent = 0;  // the directory's node
  std::string name;

  friend bool operator==(const DentryName&, const DentryName&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const DentryName& dentry) {
    return H::combine(std::move(hash), dentry.parent, dentry.name);
  }
};

}  // namespace dafs::fuse
