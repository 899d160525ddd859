// System calls on a mounted directory. Asynchronous with O_DIRECT: the kernel's AIO. Otherwise:
// plain calls, which have completed when they return.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bench/block_io.h"

namespace dafs::bench {
namespace {

class PosixBlocks : public BlockIo {
 public:
  PosixBlocks(const char* directory, const BlockIoOptions& options)
      : prefix_(std::string(directory) + "/"), options_(options) {
    if (options_.async && options_.direct && syscall(SYS_io_setup, kMostBlocks, &aio_) != 0) {
      std::perror("io_setup");
      std::exit(1);
    }
  }
  ~PosixBlocks() override {
    if (aio_ != 0) syscall(SYS_io_destroy, aio_);
    std::free(memory_);
  }

  char* Memory(size_t bytes) override {
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    return memory_ = static_cast<char*>(std::aligned_alloc(4096, rounded));
  }
  int Open(const char* path, bool write) override {
    const int flags = write ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;
    const int file =
        open((prefix_ + path).c_str(), flags | O_CLOEXEC | (options_.direct ? O_DIRECT : 0), 0644);
    if (file < 0) std::perror(path);
    return file;
  }
  bool Close(int file) override { return close(file) == 0; }
  int64_t Size(int file) override {
    struct stat attributes = {};
    return fstat(file, &attributes) == 0 ? attributes.st_size : -1;
  }
  bool Read(int file, uint32_t slot, char* into, size_t size, uint64_t at) override {
    if (aio_ != 0) return Submit(IOCB_CMD_PREAD, file, slot, into, size, at);
    return Ended(slot, pread(file, into, size, static_cast<off_t>(at)));
  }
  bool Write(int file, uint32_t slot, const char* from, size_t size, uint64_t at) override {
    if (aio_ != 0) return Submit(IOCB_CMD_PWRITE, file, slot, from, size, at);
    return Ended(slot, pwrite(file, from, size, static_cast<off_t>(at)));
  }
  size_t Finish(std::span<BlockDone> done, bool wait) override {
    size_t count = 0;
    if (aio_ == 0) {
      for (; count < done.size() && !ended_.empty(); ended_.pop_back()) {
        done[count++] = ended_.back();
      }
      return count;
    }
    std::array<io_event, kMostBlocks> events;
    timespec now = {};
    const size_t most = std::min<size_t>(done.size(), kMostBlocks);
    const long got = syscall(SYS_io_getevents, aio_, wait ? 1L : 0L, static_cast<long>(most),
                             events.data(), wait ? nullptr : &now);
    for (long i = 0; i < got; ++i) {
      const io_event& event = events[static_cast<size_t>(i)];
      if (event.res < 0) {
        std::fprintf(stderr, "aio: error %lld\n", -static_cast<long long>(event.res));
      }
      done[count++] = {static_cast<uint32_t>(event.data),
                       event.res < 0 ? 0 : static_cast<size_t>(event.res), event.res >= 0};
    }
    return count;
  }

 private:
  bool Submit(uint16_t what, int file, uint32_t slot, const char* at, size_t size,
              uint64_t offset) {
    iocb block = {};
    block.aio_data = slot;
    block.aio_lio_opcode = what;
    block.aio_fildes = static_cast<uint32_t>(file);
    block.aio_buf = reinterpret_cast<uintptr_t>(at);
    block.aio_nbytes = size;
    block.aio_offset = static_cast<int64_t>(offset);
    iocb* blocks[] = {&block};
    if (syscall(SYS_io_submit, aio_, 1, blocks) == 1) return true;
    std::perror("io_submit");
    return false;
  }
  bool Ended(uint32_t slot, ssize_t result) {
    if (result < 0) std::perror("read or write");
    ended_.push_back({slot, result < 0 ? 0 : static_cast<size_t>(result), result >= 0});
    return result >= 0;
  }

  const std::string prefix_;
  const BlockIoOptions options_;
  aio_context_t aio_ = 0;
  char* memory_ = nullptr;
  std::vector<BlockDone> ended_;
};

}  // namespace

std::unique_ptr<BlockIo> MakeBlockIo(const char* target, const BlockIoOptions& options) {
  return std::make_unique<PosixBlocks>(target, options);
}

}  // namespace dafs::bench
