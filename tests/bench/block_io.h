// Concurrent reads and writes of blocks of files, for bench_paper.cc and bench_gzip.cc: with
// libdafs (dafs_blocks.cc), with libnfs (libnfs_blocks.cc), or by system calls on a mounted
// directory (posix_blocks.cc). Use from one thread. A call that fails prints the reason to stderr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace dafs::bench {

struct BlockIoOptions {
  bool async = true;    // false: one at a time, with blocking calls if there are any
  bool direct = false;  // system calls: O_DIRECT, so without the kernel's cache and read-ahead
};

// A completed read or write.
struct BlockDone {
  uint32_t slot = 0;  // as the caller gave it
  size_t bytes = 0;   // transferred; fewer than requested at the end of the file
  bool good = false;
};

class BlockIo {
 public:
  virtual ~BlockIo() = default;
  // Allocates the memory for all reads and writes. Call once. Aligned to pages; owned by this
  // object.
  virtual char* Memory(size_t bytes) = 0;
  // Opens a file below the directory or export; -1: failed. `write`: creates or truncates it.
  virtual int Open(const char* path, bool write) = 0;
  // Afterwards, the server has all written data.
  virtual bool Close(int file) = 0;
  virtual int64_t Size(int file) = 0;
  virtual bool Read(int file, uint32_t slot, char* into, size_t size, uint64_t at) = 0;
  virtual bool Write(int file, uint32_t slot, const char* from, size_t size, uint64_t at) = 0;
  // Returns completed reads and writes. `wait`: blocks until one has completed.
  virtual size_t Finish(std::span<BlockDone> done, bool wait) = 0;
};

// `target`: a directory, "SERVER:PORT/EXPORT" (with the prefix "rdma:" over an RDMA device), or an
// nfs:// URL. Returns nullptr if it failed.
std::unique_ptr<BlockIo> MakeBlockIo(const char* target, const BlockIoOptions& options);

inline constexpr uint32_t kMostBlocks = 64;  // outstanding at once

}  // namespace dafs::bench
