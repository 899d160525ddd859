// Times one kind of call many times and prints the median and the spread in microseconds:
//   dafs_latency_probe read|stat FILE COUNT      ->   "MEDIAN P05 P95 MEAN"
// `read` is 4 KiB with O_DIRECT at random page offsets of FILE; `stat` is stat(2) of FILE.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kPage = 4096;

int Fail(const char* what) {
  std::perror(what);
  return 1;
}

double Micros(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

void Print(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  double sum = 0;
  for (double time : times) sum += time;
  auto at = [&](size_t percent) { return times[(times.size() - 1) * percent / 100]; };
  std::printf("%.2f %.2f %.2f %.2f\n", at(50), at(5), at(95),
              sum / static_cast<double>(times.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: dafs_latency_probe read|stat FILE COUNT\n");
    return 1;
  }
  const bool read = std::string_view(argv[1]) == "read";
  const size_t count = std::clamp(std::strtoul(argv[3], nullptr, 10), 1ul, 10'000'000ul);
  struct stat attributes = {};
  if (stat(argv[2], &attributes) != 0) return Fail(argv[2]);
  const size_t pages = static_cast<size_t>(attributes.st_size) / kPage;
  int fd = open(argv[2], O_RDONLY | (read ? O_DIRECT : 0));
  if (fd < 0 || pages == 0) return Fail(argv[2]);
  void* page = std::aligned_alloc(kPage, kPage);
  if (page == nullptr) return Fail("memory");
  std::memset(page, 1, kPage);

  std::mt19937_64 dice(1);
  std::vector<double> times;
  times.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto offset = static_cast<off_t>(dice() % pages * kPage);
    const auto start = std::chrono::steady_clock::now();
    const bool good = read ? pread(fd, page, kPage, offset) == static_cast<ssize_t>(kPage)
                           : stat(argv[2], &attributes) == 0;
    const auto end = std::chrono::steady_clock::now();
    if (!good) return Fail(argv[1]);
    times.push_back(Micros(end - start));
  }
  std::free(page);
  close(fd);
  Print(times);
  return 0;
}
