#include "runtime/loop/cpu_latency.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dafs {
namespace {

// PM_QOS_CPU_LATENCY_DEFAULT_VALUE: the kernel treats it as no limit.
constexpr int32_t kNoLimit = 2'000'000'000;
// The limit makes all idle CPUs of the machine poll. On more CPUs than this, polling costs more
// than a call saves.
constexpr long kMostCpus = 8;
// A limit longer than this saves a call nothing.
constexpr uint32_t kMostMicroseconds = 10'000;

}  // namespace

absl::StatusOr<CpuLatencyOption> ParseCpuLatency(std::string_view text) {
  if (text == "auto") return CpuLatencyOption{};
  if (text == "off") return CpuLatencyOption{.wanted = false};
  uint32_t microseconds = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, microseconds);
  if (error != std::errc() || rest != end || microseconds > kMostMicroseconds) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected auto, off or microseconds from 0 to ", kMostMicroseconds));
  }
  return CpuLatencyOption{.wanted = true, .longest = absl::Microseconds(microseconds)};
}

IdleFacts IdleFactsOfMachine() {
  IdleFacts facts;
  std::ifstream("/sys/devices/system/cpu/cpuidle/current_driver") >> facts.driver;
  facts.cpus = sysconf(_SC_NPROCESSORS_ONLN);
  return facts;
}

absl::StatusOr<std::unique_ptr<CpuLatency>> CpuLatency::Open(absl::Duration longest,
                                                             const std::string& device) {
  UniqueFd fd(open(device.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, device);
  return std::unique_ptr<CpuLatency>(new CpuLatency(std::move(fd), longest));
}

std::unique_ptr<CpuLatency> CpuLatency::For(const CpuLatencyOption& option, const IdleFacts& facts,
                                            const std::string& device, std::string* said) {
  const bool virtual_cpus = facts.driver == "haltpoll";
  const bool few = facts.cpus > 1 && facts.cpus <= kMostCpus;
  if (!option.wanted.value_or(virtual_cpus && few)) {
    *said = "idle CPUs sleep as the system configures (";
    if (option.wanted.has_value()) {
      absl::StrAppend(said, "off)");
    } else if (facts.cpus == 1) {
      absl::StrAppend(said, "one CPU)");
    } else {
      absl::StrAppend(said, virtual_cpus ? absl::StrCat(facts.cpus, " CPUs)")
                                         : "not the CPUs of a KVM guest with haltpoll)");
    }
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<CpuLatency>> latency = Open(option.longest, device);
  if (!latency.ok()) {
    *said =
        absl::StrCat("idle CPUs sleep as the system configures (", latency.status().message(), ")");
    return nullptr;
  }
  *said = absl::StrCat("idle CPUs wake within ", absl::ToInt64Microseconds(option.longest),
                       " us while this program is busy");
  return *std::move(latency);
}

void CpuLatency::Limit(int32_t microseconds) {
  // Ignore a failure: it only makes calls slower.
  [[maybe_unused]] ssize_t written = write(fd_.get(), &microseconds, sizeof(microseconds));
}

void CpuLatency::Hold() {
  absl::MutexLock lock(&mutex_);
  if (holders_++ == 0) Limit(static_cast<int32_t>(absl::ToInt64Microseconds(longest_)));
}

void CpuLatency::Release() {
  absl::MutexLock lock(&mutex_);
  if (--holders_ == 0) Limit(kNoLimit);
}

}  // namespace dafs
