// Makes a directory the working directory of one thread. Before Linux 6.13 the system calls for
// extended attributes accept no directory descriptor with a name; here they use the name alone. A
// path through /proc takes three times as long.
#pragma once

namespace dafs::server {

// While it lives, relative paths of the calling thread start in `directory`; other threads are not
// affected. Afterwards the thread's working directory is "/", so that it keeps no file system busy.
// The thread's identity needs search permission for `directory`.
class ScopedWorkingDirectory {
 public:
  explicit ScopedWorkingDirectory(int directory);
  ~ScopedWorkingDirectory();
  ScopedWorkingDirectory(const ScopedWorkingDirectory&) = delete;
  ScopedWorkingDirectory& operator=(const ScopedWorkingDirectory&) = delete;

  // False: the directory may not be searched, or threads of this process cannot have a working
  // directory of their own.
  bool entered() const { return entered_; }

 private:
  bool entered_ = false;
};

}  // namespace dafs::server
