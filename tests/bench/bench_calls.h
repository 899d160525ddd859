// The calls that bench_probe.cc times: on a mounted directory (posix_calls.cc), or on a server
// asked by a library (libnfs_calls.cc). Each returns false, with errno, if it failed or did less
// than all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dafs::bench {

using File = intptr_t;
inline constexpr File kNoFile = -1;

// Paths are relative to the directory that is measured.
class Calls {
 public:
  virtual ~Calls() = default;
  virtual File Open(const char* path, int flags) = 0;  // new files get mode 0644
  virtual bool Close(File file) = 0;
  virtual bool Read(File file, char* into, size_t size, size_t at) = 0;
  virtual bool Write(File file, const char* from, size_t size, size_t at) = 0;
  virtual bool Stat(const char* path) = 0;
  virtual bool Rename(const char* from, const char* to) = 0;
  virtual bool Unlink(const char* path) = 0;
  // What `ls -l` asks of a directory: its entries, and the attributes of each.
  virtual bool ListLong(const char* path) = 0;
};

// Nullptr, with errno, if there is no such directory.
std::unique_ptr<Calls> MakeCalls(const char* directory);

}  // namespace dafs::bench
