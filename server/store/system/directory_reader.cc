#include "server/store/system/directory_reader.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace dafs::server {

bool DirectoryReader::Seek(int64_t position) { return lseek(fd_, position, SEEK_SET) >= 0; }

const dirent64* DirectoryReader::Next(int* error) {
  *error = 0;
  if (used_ >= filled_) {
    used_ = 0;
    filled_ = syscall(SYS_getdents64, fd_, buffer_, sizeof buffer_);
    if (filled_ < 0) *error = errno;
    if (filled_ <= 0) return nullptr;
  }
  const auto* entry = reinterpret_cast<const dirent64*>(buffer_ + used_);
  used_ += entry->d_reclen;
  return entry;
}

}  // namespace dafs::server
