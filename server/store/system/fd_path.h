// Names a descriptor by a path.
#pragma once

#include <cstdio>

namespace dafs::server {

// "/proc/self/fd/N": system calls on this path apply the kernel's permission checks to an O_PATH
// descriptor (docs/fuse.md 16). Every thread of the process may follow it.
class FdPath {
 public:
  explicit FdPath(int fd) { std::snprintf(text_, sizeof text_, "/proc/self/fd/%d", fd); }
  const char* c_str() const { return text_; }

 private:
  char text_[32];
};

}  // namespace dafs::server
