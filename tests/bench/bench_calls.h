// The calls that bench_probe.cc times: on a mounted directory (posix_calls.cc), or to a server
// through a library (libnfs_calls.cc). A call that fails, or transfers less than requested, returns
// false (Open: kNoFile) with errno set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dafs::bench {

using File = intptr_t;
inline constexpr File kNoFile = -1;

// Paths are relative to the measured directory.
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
  virtual bool MakeDirectory(const char* path) = 0;
  virtual bool RemoveDirectory(const char* path) = 0;
  // Reads the entries of a directory and the attributes of each, as `ls -l` does.
  virtual bool ListLong(const char* path) = 0;
};

// Returns nullptr, with errno set, if `directory` cannot be used.
std::unique_ptr<Calls> MakeCalls(const char* directory);

}  // namespace dafs::bench
