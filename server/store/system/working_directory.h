// A directory as the working directory of one thread: what there is no system call for by
// descriptor and name, extended attributes before Linux 6.13, is then done by the name alone. The
// way through /proc takes three times as long.
#pragma once

namespace dafs::server {

// While it lives, names without a directory are those in `directory`, for the calling thread and no
// other; then its working directory is "/", so that it keeps no file system busy. Entering needs
// the right to search it, as the thread's identity.
class ScopedWorkingDirectory {
 public:
  explicit ScopedWorkingDirectory(int directory);
  ~ScopedWorkingDirectory();
  ScopedWorkingDirectory(const ScopedWorkingDirectory&) = delete;
  ScopedWorkingDirectory& operator=(const ScopedWorkingDirectory&) = delete;

  // False: it may not be searched, or threads of this process cannot have their own.
  bool entered() const { return entered_; }

 private:
  bool entered_ = false;
};

}  // namespace dafs::server
