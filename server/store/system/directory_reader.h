// Reads the entries of a directory with their positions (getdents64(2)), in the order of the file
// system. The positions stay valid after creations and removals, and after a restart.
// Any thread, one at a time. Blocks on the file system.
#pragma once

#include <dirent.h>

#include <cstdint>

namespace dafs::server {

class DirectoryReader {
 public:
  // `fd` is open for reading. Borrowed.
  explicit DirectoryReader(int fd) : fd_(fd) {}
  DirectoryReader(const DirectoryReader&) = delete;
  DirectoryReader& operator=(const DirectoryReader&) = delete;

  // Continues after the entry with this position (d_off). Call before Next. Returns false if the
  // file system does not accept the position; it may also find that out in Next (EINVAL).
  bool Seek(int64_t position);
  // Returns the next entry, valid until the next call. Null: the directory has ended (*error is 0),
  // or reading failed (an errno; ENOENT: the directory was removed).
  const dirent64* Next(int* error);

 private:
  const int fd_;
  long filled_ = 0;
  long used_ = 0;
  alignas(dirent64) char buffer_[32768];
};

}  // namespace dafs::server
