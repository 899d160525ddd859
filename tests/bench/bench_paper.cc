// The paper's first experiment: reads blocks of a file that the server has in memory, one at a time
// or 32 at once, for SECONDS. Spec: FAST03 5.1.
//   dafs_paper_posix|dafs|libnfs sync|async TARGET BLOCK_BYTES SECONDS [WHOSE...]
//   ->  {"reads":N,"mbs":megabytes a second,"cpu":[us of each read,...]}
// `cpu`: the processor time of the program, then that of each WHOSE (CpuNow in bench_cpu.h). TARGET
// (block_io.h) contains `file`. For `scripts/bench --paper` and `tests/rdma/run beside-nfs`.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/bench_cpu.h"
#include "tests/bench/block_io.h"

namespace dafs::bench {
namespace {

constexpr uint32_t kDepth = 32;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "bench_paper: %s failed\n", what);
  std::exit(1);
}

class Reads {
 public:
  Reads(BlockIo& io, uint32_t depth, size_t block) : io_(io), depth_(depth), block_(block) {
    memory_ = io.Memory(depth * block);
    if (memory_ == nullptr) Fail("memory");
    file_ = io.Open("file", false);
    if (file_ < 0) Fail("open");
    blocks_ = static_cast<uint64_t>(io.Size(file_)) / block;
    if (blocks_ == 0) Fail("a file smaller than a block");
  }

  // Reads until `end`. Returns the number of reads.
  uint64_t Run(std::chrono::steady_clock::time_point end) {
    uint64_t ended = 0;
    uint32_t out = 0;
    for (; out < depth_; ++out) Issue(out);
    std::array<BlockDone, kDepth> done;
    while (out > 0) {
      const size_t count = io_.Finish(done, true);
      const bool go_on = std::chrono::steady_clock::now() < end;
      for (size_t i = 0; i < count; ++i) {
        if (!done[i].good || done[i].bytes != block_) Fail("read");
        ++ended;
        if (go_on) {
          Issue(done[i].slot);
        } else {
          --out;
        }
      }
    }
    return ended;
  }

 private:
  void Issue(uint32_t slot) {
    const uint64_t at = next_++ % blocks_ * block_;
    if (!io_.Read(file_, slot, memory_ + slot * block_, block_, at)) Fail("read");
  }

  BlockIo& io_;
  const uint32_t depth_;
  const size_t block_;
  char* memory_ = nullptr;
  int file_ = -1;
  uint64_t blocks_ = 0;
  uint64_t next_ = 0;
};

int Measure(int argc, char** argv) {
  const std::string_view mode = argc >= 5 ? argv[1] : "";
  if (mode != "sync" && mode != "async") {
    std::fprintf(stderr, "usage: %s sync|async TARGET BLOCK_BYTES SECONDS [WHOSE...]\n", argv[0]);
    return 1;
  }
  const size_t block = std::clamp(std::strtoul(argv[3], nullptr, 10), 512ul, 16ul << 20);
  const double seconds = std::clamp(std::strtod(argv[4], nullptr), 0.01, 600.0);
  BlockIoOptions options;
  options.async = mode == "async";
  options.direct = true;
  std::unique_ptr<BlockIo> io = MakeBlockIo(argv[2], options);
  if (io == nullptr) Fail("connect");
  Reads reads(*io, options.async ? kDepth : 1, block);
  using Clock = std::chrono::steady_clock;
  reads.Run(Clock::now() + std::chrono::milliseconds(100));  // warms up
  const std::vector<std::string> whose(argv + 5, argv + argc);
  std::vector<double> cpu = CpuNow(whose);
  const auto start = Clock::now();
  const auto count = static_cast<double>(reads.Run(
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))));
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  const std::vector<double> after = CpuNow(whose);
  std::printf("{\"reads\":%.0f,\"mbs\":%.2f,\"cpu\":[", count,
              count * static_cast<double>(block) / took / 1e6);
  for (size_t i = 0; i < cpu.size(); ++i) {
    std::printf("%s%.3f", i == 0 ? "" : ",", (after[i] - cpu[i]) / count);
  }
  std::printf("]}\n");
  return 0;
}

}  // namespace
}  // namespace dafs::bench

int main(int argc, char** argv) { return dafs::bench::Measure(argc, argv); }
