// Processor time, for the programs of scripts/bench. In microseconds.
#pragma once

#include <time.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace dafs::bench {

// The processor time a process has had, all its threads together.
inline double CpuOf(const std::string& pid) {
  double sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task")) {
    uint64_t nanoseconds = 0;
    std::ifstream(task.path() / "schedstat") >> nanoseconds;
    sum += static_cast<double>(nanoseconds) / 1e3;
  }
  return sum;
}

inline double OwnCpu() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

// Of this process, then of each of `pids`.
inline std::vector<double> CpuNow(const std::vector<std::string>& pids) {
  std::vector<double> cpu = {OwnCpu()};
  for (const std::string& pid : pids) cpu.push_back(CpuOf(pid));
  return cpu;
}

}  // namespace dafs::bench
