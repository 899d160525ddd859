// The names in an open directory. For a few entries; directory_reader.h reads large directories by
// position. Used by one thread; the calls may block in the file system.
#pragma once

#include <dirent.h>
#include <fcntl.h>

#include <memory>

#include "runtime/files/unique_fd.h"

namespace dafs::server {

class DirectoryEntries {
 public:
  // Reads through a duplicate of `directory`, which stays the caller's. Both share a position, so
  // `directory` must not have been read before.
  explicit DirectoryEntries(const UniqueFd& directory)
      : dir_(Open(UniqueFd(fcntl(directory.get(), F_DUPFD_CLOEXEC, 0)))) {}

  // False: the directory cannot be listed.
  bool valid() const { return dir_ != nullptr; }
  // The next name, also "." and "..", valid until the next call; null: the end, or an error. Only
  // if valid().
  const char* Next() {
    const dirent* entry = readdir(dir_.get());
    return entry == nullptr ? nullptr : entry->d_name;
  }

 private:
  struct Closer {
    void operator()(DIR* dir) const { closedir(dir); }
  };
  static DIR* Open(UniqueFd fd) {
    DIR* const dir = fdopendir(fd.get());
    if (dir != nullptr) fd.Release();  // closedir(3) closes it
    return dir;
  }

  std::unique_ptr<DIR, Closer> dir_;
};

}  // namespace dafs::server
