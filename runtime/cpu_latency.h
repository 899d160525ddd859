// How long a CPU of this machine may take to wake from idle while somebody waits for an answer: the
// kernel's CPU latency QoS (/dev/cpu_dma_latency, Documentation/power/pm_qos_interface.rst). A call
// through a mount wakes a thread at each of its steps. Where CPUs are virtual, one that idles has
// gone back to the host, and waking it takes some 40 us, several times what the call does; with a
// limit of 0 it polls instead. The limit is of the whole machine, so it is held only while there is
// much to do (runtime/busy_hold.h), and the kernel drops it with the process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dafs::dat {

// What the administrator wants (cpu_latency=, --cpu-latency).
struct CpuLatencyWish {
  // Nullopt: what this machine is decides, see CpuLatency::For.
  std::optional<bool> wanted;
  absl::Duration longest = absl::ZeroDuration();
  bool operator==(const CpuLatencyWish&) const = default;
};
// "auto", "off", or whole microseconds, 0 to 10000. kInvalidArgument: `text` is neither.
absl::StatusOr<CpuLatencyWish> ParseCpuLatency(std::string_view text);

// What a machine tells of how its CPUs idle.
struct IdleFacts {
  std::string driver;  // /sys/devices/system/cpu/cpuidle/current_driver
  long cpus = 0;       // online
};
IdleFacts IdleFactsOfMachine();

// Thread-safe.
class CpuLatency {
 public:
  // `device` is /dev/cpu_dma_latency, or what stands for it in a test. Errors: the system's.
  static absl::StatusOr<std::unique_ptr<CpuLatency>> Open(absl::Duration longest,
                                                          const std::string& device);
  // What `wish` comes to on such a machine: null where there is to be no limit, and `said` says in
  // either case what was done and why.
  static std::unique_ptr<CpuLatency> For(const CpuLatencyWish& wish, const IdleFacts& facts,
                                         const std::string& device, std::string* said);
  ~CpuLatency();
  CpuLatency(const CpuLatency&) = delete;
  CpuLatency& operator=(const CpuLatency&) = delete;

  // The limit is there from the first Hold to the last Release. A system call at either, which also
  // wakes the CPUs that idle.
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr char kDevice[] = "/dev/cpu_dma_latency";

 private:
  CpuLatency(int fd, absl::Duration longest) : fd_(fd), longest_(longest) {}
  void Limit(int32_t microseconds);

  const int fd_;
  const absl::Duration longest_;
  absl::Mutex mutex_;
  uint32_t holders_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dafs::dat
