// Processor time in microseconds, for the programs of scripts/bench and tests/rdma.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace dafs::bench {

// The processor time of all threads of a process. 0 if the process is gone.
inline double CpuOf(const std::string& pid) {
  double sum = 0;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task", gone)) {
    uint64_t nanoseconds = 0;
    std::ifstream(task.path() / "schedstat") >> nanoseconds;
    sum += static_cast<double>(nanoseconds) / 1e3;
  }
  return sum;
}

// The processor time of all kernel threads whose names begin with `name`.
inline double CpuOfKernel(std::string_view name) {
  double sum = 0;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::string line, state;
    std::getline(std::ifstream(process.path() / "stat"), line);  // PID (NAME) STATE PARENT ...
    const size_t open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos) continue;
    int parent = 0;
    std::istringstream(line.substr(close + 1)) >> state >> parent;
    constexpr int kThreadd = 2;
    if (parent != kThreadd || !line.substr(open + 1, close - open - 1).starts_with(name)) continue;
    sum += CpuOf(process.path().filename());
  }
  return sum;
}

inline double Clock(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

inline double OwnCpu() { return Clock(CLOCK_PROCESS_CPUTIME_ID); }

// The time in which this machine's processors were not idle, computed from the idle time. The
// kernel measures idle time, but only samples the other times in /proc/stat at clock ticks. A guest
// on a busy host loses some of these.
inline double CpuOfMachine() {
  std::ifstream stat("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0;
  stat >> label >> user >> nice >> system >> idle >> waiting;
  return Clock(CLOCK_BOOTTIME) * static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)) -
         (idle + waiting) * 1e6 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The processor time of this process, then of each of `others`: a PID, "kernel:NAME" or "machine".
inline std::vector<double> CpuNow(const std::vector<std::string>& others) {
  constexpr std::string_view kKernel = "kernel:";
  std::vector<double> cpu = {OwnCpu()};
  for (const std::string& other : others) {
    if (other == "machine") {
      cpu.push_back(CpuOfMachine());
    } else if (other.starts_with(kKernel)) {
      cpu.push_back(CpuOfKernel(std::string_view(other).substr(kKernel.size())));
    } else {
      cpu.push_back(CpuOf(other));
    }
  }
  return cpu;
}

}  // namespace dafs::bench
