// A file descriptor with one owner.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace dafs::server {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}  // takes ownership; negative: no descriptor
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { Reset(); }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  void Reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

// "/proc/self/fd/N": system calls on this path apply the kernel's permission checks to an O_PATH
// descriptor (FUSE-FACTS 16). Every thread of the process may follow it.
class FdPath {
 public:
  explicit FdPath(int fd) { std::snprintf(text_, sizeof text_, "/proc/self/fd/%d", fd); }
  const char* c_str() const { return text_; }

 private:
  char text_[32];
};

}  // namespace dafs::server
