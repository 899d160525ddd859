// Limits how long a CPU of this machine may take to wake from idle, by the kernel's CPU latency QoS
// (/dev/cpu_dma_latency, Documentation/power/pm_qos_interface.rst).
//
// A call through a mount wakes a thread at each of its steps. An idle virtual CPU returns to the
// host, and waking it takes about 40 us, several times the cost of the call. With a limit of 0, an
// idle CPU polls instead. The limit applies to the whole machine, so the program requests it only
// while a loop is busy (runtime/loop/cpu_latency_request.h). The kernel drops the request when the
// process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"

namespace dafs {

// The administrator's setting (cpu_latency=, --cpu-latency).
struct CpuLatencyOption {
  // Nullopt: the kind of machine decides, see CpuLatency::For.
  std::optional<bool> wanted;
  absl::Duration longest = absl::ZeroDuration();
  bool operator==(const CpuLatencyOption&) const = default;
};
// Parses "auto", "off", or whole microseconds from 0 to 10000. Otherwise fails with
// kInvalidArgument.
absl::StatusOr<CpuLatencyOption> ParseCpuLatency(std::string_view text);

// Facts about the machine that decide how its CPUs idle.
struct IdleFacts {
  std::string driver;  // /sys/devices/system/cpu/cpuidle/current_driver
  long cpus = 0;       // online
};
IdleFacts IdleFactsOfMachine();

// A CPU latency request. Thread-safe.
class CpuLatency {
 public:
  // `device` is /dev/cpu_dma_latency; tests pass another file. Returns the error of open(2).
  static absl::StatusOr<std::unique_ptr<CpuLatency>> Open(absl::Duration longest,
                                                          const std::string& device);
  // Applies `option` on a machine with `facts`. Returns null if there is to be no limit. In either
  // case sets `said` to what was done and why.
  static std::unique_ptr<CpuLatency> For(const CpuLatencyOption& option, const IdleFacts& facts,
                                         const std::string& device, std::string* said);
  CpuLatency(const CpuLatency&) = delete;
  CpuLatency& operator=(const CpuLatency&) = delete;

  // The limit is in force from the first Hold to the last Release. Each of these two calls makes
  // one system call, which also wakes the idle CPUs.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr char kDevice[] = "/dev/cpu_dma_latency";

 private:
  CpuLatency(UniqueFd fd, absl::Duration longest) : fd_(std::move(fd)), longest_(longest) {}
  void Limit(int32_t microseconds);

  const UniqueFd fd_;
  const absl::Duration longest_;
  absl::Mutex mutex_;
  uint32_t holders_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dafs
