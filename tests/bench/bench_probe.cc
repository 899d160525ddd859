// Makes one kind of call on a directory many times, one after another, and prints the times:
//   dafs_bench_probe ROW DIR COUNT [PID...]
//   dafs_libnfs_probe ROW nfs://SERVER/DIR?version=4&nfsport=PORT COUNT [PID...]
//   ->  {"count":N,"median":us,"p05":us,"p95":us,"mean":us,"from":us,"to":us,"cpu":[us,...]}
// `from` and `to` are the begin of the first call and the end of the last, by the monotonic clock.
// `cpu` is the processor time per call: that of the probe, then that of each process PID. DIR must
// contain `file`, of 64 MiB, for the rows on data. A row creates everything else that it needs
// before it measures, and removes it afterwards. For `scripts/bench`, which interprets the figures.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/bench_calls.h"
#include "tests/bench/bench_cpu.h"

namespace dafs::bench {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLarge = 1 << 20;
constexpr size_t kFileBytes = 64 << 20;  // of `file`

[[noreturn]] void Fail(const std::string& what) {
  std::perror(("dafs_bench_probe: " + what).c_str());
  std::exit(1);
}

void Must(bool good, const std::string& what) {
  if (!good) Fail(what);
}

// State and helpers of a row. Paths are relative to the measured directory.
class Bench {
 public:
  Bench(Calls& calls, size_t count)
      : calls_(calls),
        count_(count),
        buffer_(static_cast<char*>(std::aligned_alloc(kPage, kLarge))) {
    Must(buffer_ != nullptr, "memory");
    std::memset(buffer_, 1, kLarge);
  }
  ~Bench() {
    if (file_ != kNoFile) calls_.Close(file_);
    std::free(buffer_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Calls& calls() { return calls_; }
  size_t count() const { return count_; }
  // A name that no probe has looked up before.
  const char* Missing(size_t i) {
    return Name("no-" + std::to_string(getpid()) + "-" + std::to_string(i));
  }
  const char* Made(size_t i) { return Name("probe-" + std::to_string(i)); }
  const char* Entry(size_t i) {
    std::string digits = std::to_string(i);
    digits.insert(0, 6 - std::min<size_t>(digits.size(), 6), '0');
    return Name("entries/entry-" + digits);
  }

  void OpenFile(int flags) {
    file_ = calls_.Open("file", flags);
    Must(file_ != kNoFile, "file");
  }
  void OpenLog() {
    file_ = calls_.Open(Made(0), O_CREAT | O_EXCL | O_WRONLY | O_APPEND);
    Must(file_ != kNoFile, "a file to append to");
  }
  bool Read(size_t size, size_t at) { return calls_.Read(file_, buffer_, size, at); }
  bool Write(size_t size, size_t at) { return calls_.Write(file_, buffer_, size, at); }
  size_t RandomOffset(size_t size) { return dice_() % (kFileBytes / size) * size; }
  static size_t NextOffset(size_t i, size_t size) { return i % (kFileBytes / size) * size; }

  bool OpenAndClose(const char* path, int flags) {
    const File file = calls_.Open(path, flags);
    return file != kNoFile && calls_.Close(file);
  }
  bool Make(size_t i) { return OpenAndClose(Made(i), O_CREAT | O_EXCL | O_WRONLY); }
  bool MakeAndWrite(size_t i) {
    const File file = calls_.Open(Made(i), O_CREAT | O_EXCL | O_WRONLY);
    return file != kNoFile && calls_.Write(file, buffer_, 1000, 0) && calls_.Close(file);
  }
  void MakeAll() {
    for (size_t i = 0; i < count_; ++i) Must(Make(i), "create");
  }
  void RemoveAll() {
    for (size_t i = 0; i < count_; ++i) calls_.Unlink(Made(i));
  }

 private:
  const char* Name(std::string name) { return (name_ = std::move(name)).c_str(); }

  Calls& calls_;
  const size_t count_;
  char* const buffer_;
  std::string name_;
  std::mt19937_64 dice_{1};
  File file_ = kNoFile;
};

struct Row {
  std::string_view name;
  void (*prepare)(Bench& bench);
  bool (*once)(Bench& bench, size_t i);
  void (*clean)(Bench& bench);
};

void Nothing(Bench&) {}

constexpr Row kRows[] = {
    {"read-4k", [](Bench& b) { b.OpenFile(O_RDONLY | O_DIRECT); },
     [](Bench& b, size_t) { return b.Read(kPage, b.RandomOffset(kPage)); }, Nothing},
    {"read-1m", [](Bench& b) { b.OpenFile(O_RDONLY | O_DIRECT); },
     [](Bench& b, size_t i) { return b.Read(kLarge, b.NextOffset(i, kLarge)); }, Nothing},
    {"write-4k", [](Bench& b) { b.OpenFile(O_WRONLY | O_DIRECT); },
     [](Bench& b, size_t) { return b.Write(kPage, b.RandomOffset(kPage)); }, Nothing},
    {"write-8k", [](Bench& b) { b.OpenFile(O_WRONLY | O_DIRECT); },
     [](Bench& b, size_t) { return b.Write(2 * kPage, b.RandomOffset(2 * kPage)); }, Nothing},
    {"write-1m", [](Bench& b) { b.OpenFile(O_WRONLY | O_DIRECT); },
     [](Bench& b, size_t i) { return b.Write(kLarge, b.NextOffset(i, kLarge)); }, Nothing},
    {"stat", Nothing, [](Bench& b, size_t) { return b.calls().Stat("file"); }, Nothing},
    {"stat-new", Nothing, [](Bench& b, size_t i) { return b.calls().Stat(b.Entry(i)); }, Nothing},
    {"missing", Nothing,
     [](Bench& b, size_t i) { return !b.calls().Stat(b.Missing(i)) && errno == ENOENT; }, Nothing},
    {"create", Nothing, [](Bench& b, size_t i) { return b.Make(i); },
     [](Bench& b) { b.RemoveAll(); }},
    {"create-1k", Nothing, [](Bench& b, size_t i) { return b.MakeAndWrite(i); },
     [](Bench& b) { b.RemoveAll(); }},
    // With O_APPEND, pwrite(2) appends.
    {"append", [](Bench& b) { b.OpenLog(); }, [](Bench& b, size_t) { return b.Write(100, 0); },
     [](Bench& b) { b.calls().Unlink(b.Made(0)); }},
    {"open", Nothing, [](Bench& b, size_t) { return b.OpenAndClose("file", O_RDONLY); }, Nothing},
    {"rename", [](Bench& b) { Must(b.Make(0), "create"); },
     [](Bench& b, size_t i) {
       const std::string from = b.Made(i);
       return b.calls().Rename(from.c_str(), b.Made(i + 1));
     },
     [](Bench& b) { b.calls().Unlink(b.Made(b.count())); }},
    {"unlink", [](Bench& b) { b.MakeAll(); },
     [](Bench& b, size_t i) { return b.calls().Unlink(b.Made(i)); }, Nothing},
    {"mkdir", Nothing,
     [](Bench& b, size_t i) {
       return b.calls().MakeDirectory(b.Made(i)) && b.calls().RemoveDirectory(b.Made(i));
     },
     Nothing},
    {"list", Nothing, [](Bench& b, size_t) { return b.calls().ListLong("entries"); }, Nothing},
};

using Clock = std::chrono::steady_clock;

double Microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

void Print(std::vector<double>& times, Clock::time_point from, Clock::time_point to,
           const std::vector<double>& cpu) {
  const auto count = static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  double sum = 0;
  for (double time : times) sum += time;
  auto at = [&](size_t percent) { return times[(times.size() - 1) * percent / 100]; };
  std::printf("{\"count\":%zu,\"median\":%.2f,\"p05\":%.2f,\"p95\":%.2f,\"mean\":%.2f,",
              times.size(), at(50), at(5), at(95), sum / count);
  std::printf("\"from\":%.0f,\"to\":%.0f,\"cpu\":[", Microseconds(from.time_since_epoch()),
              Microseconds(to.time_since_epoch()));
  for (size_t i = 0; i < cpu.size(); ++i) std::printf("%s%.2f", i == 0 ? "" : ",", cpu[i] / count);
  std::printf("]}\n");
}

int Measure(int argc, char** argv) {
  const Row* row = nullptr;
  for (const Row& known : kRows) {
    if (argc >= 4 && known.name == argv[1]) row = &known;
  }
  if (row == nullptr) {
    std::fprintf(stderr, "usage: %s ROW DIR COUNT [PID...]; ROW is one of", argv[0]);
    for (const Row& known : kRows) std::fprintf(stderr, " %s", known.name.data());
    std::fprintf(stderr, "\n");
    return 1;
  }
  const size_t count = std::clamp(std::strtoul(argv[3], nullptr, 10), 1ul, 10'000'000ul);
  std::unique_ptr<Calls> calls = MakeCalls(argv[2]);
  Must(calls != nullptr, argv[2]);
  Bench bench(*calls, count);
  row->prepare(bench);
  const std::vector<std::string> pids(argv + 4, argv + argc);
  std::vector<double> times;
  times.reserve(count);
  const std::vector<double> before = CpuNow(pids);
  const Clock::time_point from = Clock::now();
  Clock::time_point end = from;
  for (size_t i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    const bool good = row->once(bench, i);
    end = Clock::now();
    Must(good, argv[1]);
    times.push_back(Microseconds(end - start));
  }
  std::vector<double> cpu = CpuNow(pids);
  for (size_t i = 0; i < cpu.size(); ++i) cpu[i] -= before[i];
  row->clean(bench);
  Print(times, from, end, cpu);
  return 0;
}

}  // namespace
}  // namespace dafs::bench

int main(int argc, char** argv) { return dafs::bench::Measure(argc, argv); }
