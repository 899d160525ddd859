// The paper's second experiment: gzip through a library, with read-ahead and write-behind in
// registered memory. Spec: FAST03 5.2.
//   dafs_gzip_posix|dafs [-j THREADS] TARGET FROM TO [PID...]
//   ->  {"seconds":s,"cpu":[us,...],"in":bytes,"out":bytes}
// Compresses file FROM of TARGET (block_io.h) to TO, in a format that gunzip reads. `cpu`: the
// processor time of the program, then that of each process PID. For `scripts/bench --gzip`.
//
// Each thread has its own connection and compresses every THREADS-th block of 128 KiB into a
// separate gzip member. The member's place is known once all earlier blocks are compressed.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/bench/bench_cpu.h"
#include "tests/bench/block_io.h"

namespace dafs::bench {
namespace {

constexpr size_t kBlock = 128 << 10;
constexpr size_t kMember =
    kBlock + (kBlock >> 8) + 4096;  // the greatest size of a compressed block
constexpr uint32_t kAhead = 8;      // blocks of read-ahead, and of write-behind
constexpr int kLevel = 6;           // gzip's

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "bench_gzip: %s failed\n", what);
  std::exit(1);
}

// Assigns places in the output, in the order of the blocks.
class Places {
 public:
  uint64_t Take(uint64_t block, size_t bytes) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return next_block_ == block; });
    ++next_block_;
    const uint64_t place = end_;
    end_ += bytes;
    turn_.notify_all();
    return place;
  }
  uint64_t end() const { return end_; }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t next_block_ = 0;
  uint64_t end_ = 0;
};

struct Job {
  const char* target;
  const char* from;
  const char* to;
  uint64_t threads;
};

class Compressor {
 public:
  Compressor(const Job& job, uint64_t number, Places& places)
      : job_(job), number_(number), places_(places) {
    io_ = MakeBlockIo(job.target, BlockIoOptions());
    if (io_ == nullptr) Fail("connect");
    char* memory = io_->Memory(kAhead * (kBlock + kMember));
    if (memory == nullptr) Fail("memory");
    for (uint32_t i = 0; i < kAhead; ++i) {
      in_[i] = memory + i * kBlock;
      out_[i] = memory + kAhead * kBlock + i * kMember;
    }
    from_ = io_->Open(job.from, false);
    to_ = io_->Open(job.to, true);
    if (from_ < 0 || to_ < 0) Fail("open");
    size_ = static_cast<uint64_t>(io_->Size(from_));
    // 16: adds gzip's header and trailer.
    if (deflateInit2(&stream_, kLevel, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      Fail("deflateInit2");
    }
  }
  ~Compressor() { deflateEnd(&stream_); }

  void Run() {
    const uint64_t blocks = std::max<uint64_t>((size_ + kBlock - 1) / kBlock, 1);
    for (uint64_t i = 0; i < kAhead; ++i) StartRead(number_ + i * job_.threads, blocks);
    for (uint64_t block = number_; block < blocks; block += job_.threads) {
      const auto slot = static_cast<uint32_t>(block / job_.threads % kAhead);
      while (!read_[slot] || writing_[slot]) Progress(true);
      const size_t bytes = Compress(slot);
      read_[slot] = false;
      StartRead(block + kAhead * job_.threads, blocks);
      writing_[slot] = true;
      written_[slot] = bytes;
      if (!io_->Write(to_, kAhead + slot, out_[slot], bytes, places_.Take(block, bytes))) {
        Fail("write");
      }
      Progress(false);
    }
    while (std::count(writing_.begin(), writing_.end(), true) > 0) Progress(true);
    if (!io_->Close(to_) || !io_->Close(from_)) Fail("close");
  }
  uint64_t size() const { return size_; }

 private:
  void StartRead(uint64_t block, uint64_t blocks) {
    if (block >= blocks) return;
    const auto slot = static_cast<uint32_t>(block / job_.threads % kAhead);
    const uint64_t at = block * kBlock;
    in_bytes_[slot] = static_cast<size_t>(std::min<uint64_t>(kBlock, size_ - at));
    if (!io_->Read(from_, slot, in_[slot], in_bytes_[slot], at)) Fail("read");
  }
  void Progress(bool wait) {
    std::array<BlockDone, 2 * kAhead> done;
    const size_t count = io_->Finish(done, wait);
    for (size_t i = 0; i < count; ++i) {
      const bool write = done[i].slot >= kAhead;
      const uint32_t slot = done[i].slot % kAhead;
      if (!done[i].good || done[i].bytes != (write ? written_ : in_bytes_)[slot]) {
        Fail(write ? "write" : "read");
      }
      if (write) {
        writing_[slot] = false;
      } else {
        read_[slot] = true;
      }
    }
  }
  size_t Compress(uint32_t slot) {
    deflateReset(&stream_);
    stream_.next_in = reinterpret_cast<Bytef*>(in_[slot]);
    stream_.avail_in = static_cast<uInt>(in_bytes_[slot]);
    stream_.next_out = reinterpret_cast<Bytef*>(out_[slot]);
    stream_.avail_out = static_cast<uInt>(kMember);
    if (deflate(&stream_, Z_FINISH) != Z_STREAM_END) Fail("deflate");
    return stream_.total_out;
  }

  const Job job_;
  const uint64_t number_;
  Places& places_;
  std::unique_ptr<BlockIo> io_;
  int from_ = -1;
  int to_ = -1;
  uint64_t size_ = 0;
  z_stream stream_ = {};
  std::array<char*, kAhead> in_ = {};
  std::array<char*, kAhead> out_ = {};
  std::array<size_t, kAhead> in_bytes_ = {};
  std::array<size_t, kAhead> written_ = {};
  std::array<bool, kAhead> read_ = {};
  std::array<bool, kAhead> writing_ = {};
};

int Run(int argc, char** argv) {
  Job job = {};
  job.threads = 1;
  int next = 1;
  if (argc > 2 && std::string_view(argv[1]) == "-j") {
    job.threads = std::clamp(std::strtoul(argv[2], nullptr, 10), 1ul, 64ul);
    next = 3;
  }
  if (argc < next + 3) {
    std::fprintf(stderr, "usage: %s [-j THREADS] TARGET FROM TO [PID...]\n", argv[0]);
    return 1;
  }
  job.target = argv[next];
  job.from = argv[next + 1];
  job.to = argv[next + 2];
  const std::vector<std::string> pids(argv + next + 3, argv + argc);
  std::vector<double> cpu = CpuNow(pids);
  const auto start = std::chrono::steady_clock::now();
  Places places;
  std::vector<std::unique_ptr<Compressor>> compressors;
  for (uint64_t i = 0; i < job.threads; ++i) {
    compressors.push_back(std::make_unique<Compressor>(job, i, places));
  }
  const uint64_t size = compressors[0]->size();
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i < job.threads; ++i) {
    threads.emplace_back([&, i] { compressors[i]->Run(); });
  }
  compressors[0]->Run();
  for (std::thread& thread : threads) thread.join();
  compressors.clear();
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::vector<double> after = CpuNow(pids);
  std::printf("{\"seconds\":%.3f,\"cpu\":[", took);
  for (size_t i = 0; i < cpu.size(); ++i) {
    std::printf("%s%.0f", i == 0 ? "" : ",", after[i] - cpu[i]);
  }
  std::printf("],\"in\":%llu,\"out\":%llu}\n", static_cast<unsigned long long>(size),
              static_cast<unsigned long long>(places.end()));
  return 0;
}

}  // namespace
}  // namespace dafs::bench

int main(int argc, char** argv) { return dafs::bench::Run(argc, argv); }
