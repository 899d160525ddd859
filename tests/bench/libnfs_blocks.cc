// Calls to an NFS server through libnfs, several at a time, without a mount.
#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/bench/block_io.h"

namespace dafs::bench {
namespace {

class LibnfsBlocks : public BlockIo {
 public:
  ~LibnfsBlocks() override {
    for (nfsfh* file : files_) {
      if (file != nullptr) nfs_close(nfs_, file);
    }
    if (nfs_ != nullptr) nfs_destroy_context(nfs_);
    std::free(memory_);
  }

  bool Connect(const char* url_text) {
    nfs_ = nfs_init_context();
    if (nfs_ == nullptr) return false;
    nfs_url* url = nfs_parse_url_dir(nfs_, url_text);
    const bool good = url != nullptr && nfs_mount(nfs_, url->server, url->path) == 0;
    if (!good) std::fprintf(stderr, "%s: %s\n", url_text, nfs_get_error(nfs_));
    if (url != nullptr) nfs_destroy_url(url);
    return good;
  }

  char* Memory(size_t bytes) override {
    return memory_ = static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  }
  int Open(const char* path, bool write) override {
    nfsfh* file = nullptr;
    const std::string name = std::string("/") + path;
    const int result = write
                           ? nfs_create(nfs_, name.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644, &file)
                           : nfs_open(nfs_, name.c_str(), O_RDONLY, &file);
    if (result < 0) {
      std::fprintf(stderr, "%s: %s\n", path, nfs_get_error(nfs_));
      return -1;
    }
    files_.push_back(file);
    return static_cast<int>(files_.size() - 1);
  }
  bool Close(int file) override {
    nfsfh*& handle = At(file);
    const int result = nfs_close(nfs_, handle);
    handle = nullptr;
    return result == 0;
  }
  int64_t Size(int file) override {
    nfs_stat_64 attributes = {};
    if (nfs_fstat64(nfs_, At(file), &attributes) != 0) return -1;
    return static_cast<int64_t>(attributes.nfs_size);
  }
  bool Read(int file, uint32_t slot, char* into, size_t size, uint64_t at) override {
    Out& out = outs_[slot];
    out = {this, slot, file, into, size, at, 0, false};
    return Go(out);
  }
  bool Write(int file, uint32_t slot, const char* from, size_t size, uint64_t at) override {
    Out& out = outs_[slot];
    out = {this, slot, file, const_cast<char*>(from), size, at, 0, true};
    return Go(out);
  }
  size_t Finish(std::span<BlockDone> done, bool wait) override {
    for (bool first = true; ended_.empty(); first = false) {
      if (!wait && !first) break;
      pollfd ready = {nfs_get_fd(nfs_), static_cast<int16_t>(nfs_which_events(nfs_)), 0};
      if (poll(&ready, 1, wait ? 1000 : 0) < 0) return 0;
      if (nfs_service(nfs_, ready.revents) < 0) {
        std::fprintf(stderr, "libnfs: %s\n", nfs_get_error(nfs_));
        std::exit(1);
      }
    }
    size_t count = 0;
    for (; count < done.size() && !ended_.empty(); ended_.pop_back()) {
      done[count++] = ended_.back();
    }
    return count;
  }

 private:
  struct Out {
    LibnfsBlocks* owner;
    uint32_t slot;
    int file;
    char* at;
    size_t size;
    uint64_t offset;
    size_t done;
    bool write;
  };

  // Sends the rest of a read or write. The server may transfer less than requested.
  bool Go(Out& out) {
    const uint64_t offset = out.offset + out.done;
    const uint64_t left = out.size - out.done;
    const int result = out.write ? nfs_pwrite_async(nfs_, At(out.file), offset, left,
                                                    out.at + out.done, &Ended, &out)
                                 : nfs_pread_async(nfs_, At(out.file), offset, left, &Ended, &out);
    return result == 0;
  }
  static void Ended(int result, nfs_context* nfs, void* data, void* private_data) {
    Out& out = *static_cast<Out*>(private_data);
    if (result < 0) std::fprintf(stderr, "libnfs: %s\n", nfs_get_error(nfs));
    if (result > 0) {
      if (!out.write) std::memcpy(out.at + out.done, data, static_cast<size_t>(result));
      out.done += static_cast<size_t>(result);
      if (out.done < out.size && out.owner->Go(out)) return;
    }
    out.owner->ended_.push_back({out.slot, out.done, result >= 0});
  }
  nfsfh*& At(int file) { return files_[static_cast<size_t>(file)]; }

  nfs_context* nfs_ = nullptr;
  std::vector<nfsfh*> files_;
  std::array<Out, kMostBlocks> outs_ = {};
  std::vector<BlockDone> ended_;
  char* memory_ = nullptr;
};

}  // namespace

std::unique_ptr<BlockIo> MakeBlockIo(const char* target, const BlockIoOptions&) {
  auto blocks = std::make_unique<LibnfsBlocks>();
  if (!blocks->Connect(target)) return nullptr;
  return blocks;
}

}  // namespace dafs::bench
