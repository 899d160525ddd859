// Blocks of files read and written several at once, as bench_paper.cc and bench_gzip.cc do it: with
// libdafs (dafs_blocks.cc), with libnfs (libnfs_blocks.cc), or by system calls on a mounted
// directory (posix_blocks.cc). One thread. What fails says why on stderr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace dafs::bench {

struct BlockIoOptions {
  bool async = true;  // false: one at a time, by calls that wait where there are such
  bool direct =
      false;  // system calls: O_DIRECT, without the kernel's cache, read-ahead and the like
};

// One read or write that has ended.
struct BlockDone {
  uint32_t slot = 0;  // the caller's
  size_t bytes = 0;   // moved; fewer than asked for: the end of the file
  bool good = false;
};

class BlockIo {
 public:
  virtual ~BlockIo() = default;
  // Memory for all reads and writes, once. Aligned to pages; stays as long as this.
  virtual char* Memory(size_t bytes) = 0;
  // A file below the directory or export; -1: failed. `write`: made anew.
  virtual int Open(const char* path, bool write) = 0;
  // Of what was written all is at the server.
  virtual bool Close(int file) = 0;
  virtual int64_t Size(int file) = 0;
  virtual bool Read(int file, uint32_t slot, char* into, size_t size, uint64_t at) = 0;
  virtual bool Write(int file, uint32_t slot, const char* from, size_t size, uint64_t at) = 0;
  // What has ended; with `wait` at least one, of those that are out.
  virtual size_t Finish(std::span<BlockDone> done, bool wait) = 0;
};

// `target`: a directory, "SERVER:PORT/EXPORT" ("rdma:" before it: over a device), or an nfs:// URL.
// Nullptr: failed.
std::unique_ptr<BlockIo> MakeBlockIo(const char* target, const BlockIoOptions& options);

inline constexpr uint32_t kMostBlocks = 64;  // that are out at once

}  // namespace dafs::bench
