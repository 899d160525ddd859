// Times one kind of call on a directory many times, one by one, and prints what it took:
//   dafs_bench_probe ROW DIR COUNT [PID...]
//   ->  {"count":N,"median":us,"p05":us,"p95":us,"mean":us,"cpu":[us,...]}
// `cpu` is the processor time of each call: the probe's own, then that of each process PID.
// DIR holds `file`, of 64 MiB, for the rows on data. What a row needs besides it makes before the
// clock runs, and removes afterwards. For `scripts/bench`, which knows what the figures mean.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLarge = 1 << 20;

[[noreturn]] void Fail(const std::string& what) {
  std::perror(("dafs_bench_probe: " + what).c_str());
  std::exit(1);
}

void Must(bool good, const std::string& what) {
  if (!good) Fail(what);
}

// The surroundings of a row.
class Bench {
 public:
  Bench(std::string directory, size_t count)
      : directory_(std::move(directory)),
        count_(count),
        buffer_(static_cast<char*>(std::aligned_alloc(kPage, kLarge))) {
    Must(buffer_ != nullptr, "memory");
    std::memset(buffer_, 1, kLarge);
  }
  ~Bench() {
    if (fd_ >= 0) close(fd_);
    std::free(buffer_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  size_t count() const { return count_; }
  const char* Path(std::string_view name) {
    return (path_ = directory_ + "/").append(name).c_str();
  }
  // A name that no probe has asked for before.
  const char* Missing(size_t i) {
    return Path("no-" + std::to_string(getpid()) + "-" + std::to_string(i));
  }
  const char* Path(size_t i) { return Path("probe-" + std::to_string(i)); }

  void OpenFile(int flags) {
    fd_ = open(Path("file"), flags);
    struct stat attributes = {};
    Must(fd_ >= 0 && fstat(fd_, &attributes) == 0, "file");
    bytes_ = static_cast<size_t>(attributes.st_size);
    Must(bytes_ >= kLarge, "file: too short");
  }
  bool Read(size_t size, size_t at) {
    return pread(fd_, buffer_, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
  }
  bool Write(size_t size, size_t at) {
    return pwrite(fd_, buffer_, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
  }
  size_t RandomOffset(size_t size) { return dice_() % (bytes_ / size) * size; }
  size_t NextOffset(size_t i, size_t size) const { return i % (bytes_ / size) * size; }

  void Make(size_t i) {
    int fd = open(Path(i), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    Must(fd >= 0 && close(fd) == 0, "create");
  }
  void MakeAll() {
    for (size_t i = 0; i < count_; ++i) Make(i);
  }
  void RemoveAll() {
    for (size_t i = 0; i < count_; ++i) unlink(Path(i));
  }

 private:
  const std::string directory_;
  const size_t count_;
  char* const buffer_;
  std::string path_;
  std::mt19937_64 dice_{1};
  int fd_ = -1;
  size_t bytes_ = 0;
};

// The processor time a process has had, all its threads together, in microseconds.
double CpuOf(const std::string& pid) {
  double sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task")) {
    uint64_t nanoseconds = 0;
    std::ifstream(task.path() / "schedstat") >> nanoseconds;
    sum += static_cast<double>(nanoseconds) / 1e3;
  }
  return sum;
}

double OwnCpu() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

std::vector<double> CpuNow(const std::vector<std::string>& pids) {
  std::vector<double> cpu = {OwnCpu()};
  for (const std::string& pid : pids) cpu.push_back(CpuOf(pid));
  return cpu;
}

bool Stat(const char* path) {
  struct stat attributes = {};
  return stat(path, &attributes) == 0;
}

bool OpenAndClose(const char* path, int flags) {
  int fd = open(path, flags | O_CLOEXEC, 0644);
  return fd >= 0 && close(fd) == 0;
}

bool WriteNewFile(const char* path) {
  constexpr char kText[1000] = {};
  int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  return fd >= 0 && write(fd, kText, sizeof kText) == sizeof kText && close(fd) == 0;
}

// What `ls -l` asks of a directory: its entries, and the attributes of each.
bool ListLong(Bench& bench) {
  DIR* directory = opendir(bench.Path("entries"));
  if (directory == nullptr) return false;
  bool good = true;
  struct stat attributes = {};
  while (const dirent* entry = readdir(directory)) {
    good &= fstatat(dirfd(directory), entry->d_name, &attributes, AT_SYMLINK_NOFOLLOW) == 0;
  }
  closedir(directory);
  return good;
}

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
    {"stat", Nothing, [](Bench& b, size_t) { return Stat(b.Path("file")); }, Nothing},
    {"missing", Nothing, [](Bench& b, size_t i) { return !Stat(b.Missing(i)) && errno == ENOENT; },
     Nothing},
    {"create", Nothing,
     [](Bench& b, size_t i) { return OpenAndClose(b.Path(i), O_CREAT | O_EXCL | O_WRONLY); },
     [](Bench& b) { b.RemoveAll(); }},
    {"create-1k", Nothing, [](Bench& b, size_t i) { return WriteNewFile(b.Path(i)); },
     [](Bench& b) { b.RemoveAll(); }},
    {"open", Nothing, [](Bench& b, size_t) { return OpenAndClose(b.Path("file"), O_RDONLY); },
     Nothing},
    {"rename", [](Bench& b) { b.Make(0); },
     [](Bench& b, size_t i) {
       const std::string from = b.Path(i);
       return rename(from.c_str(), b.Path(i + 1)) == 0;
     },
     [](Bench& b) { unlink(b.Path(b.count())); }},
    {"unlink", [](Bench& b) { b.MakeAll(); },
     [](Bench& b, size_t i) { return unlink(b.Path(i)) == 0; }, Nothing},
    {"list", Nothing, [](Bench& b, size_t) { return ListLong(b); }, Nothing},
};

void Print(std::vector<double>& times, const std::vector<double>& cpu) {
  const auto count = static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  double sum = 0;
  for (double time : times) sum += time;
  auto at = [&](size_t percent) { return times[(times.size() - 1) * percent / 100]; };
  std::printf("{\"count\":%zu,\"median\":%.2f,\"p05\":%.2f,\"p95\":%.2f,\"mean\":%.2f,\"cpu\":[",
              times.size(), at(50), at(5), at(95), sum / count);
  for (size_t i = 0; i < cpu.size(); ++i) std::printf("%s%.2f", i == 0 ? "" : ",", cpu[i] / count);
  std::printf("]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const Row* row = nullptr;
  for (const Row& known : kRows) {
    if (argc >= 4 && known.name == argv[1]) row = &known;
  }
  if (row == nullptr) {
    std::fprintf(stderr, "usage: dafs_bench_probe ROW DIR COUNT [PID...]; ROW is one of");
    for (const Row& known : kRows) std::fprintf(stderr, " %s", known.name.data());
    std::fprintf(stderr, "\n");
    return 1;
  }
  const size_t count = std::clamp(std::strtoul(argv[3], nullptr, 10), 1ul, 10'000'000ul);
  Bench bench(argv[2], count);
  row->prepare(bench);
  const std::vector<std::string> pids(argv + 4, argv + argc);
  std::vector<double> times;
  times.reserve(count);
  const std::vector<double> before = CpuNow(pids);
  for (size_t i = 0; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const bool good = row->once(bench, i);
    const auto end = std::chrono::steady_clock::now();
    Must(good, argv[1]);
    times.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  std::vector<double> cpu = CpuNow(pids);
  for (size_t i = 0; i < cpu.size(); ++i) cpu[i] -= before[i];
  row->clean(bench);
  Print(times, cpu);
  return 0;
}
