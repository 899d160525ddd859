// The state of a mount at one moment, as dafsctl reports it. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/session/report.h"

namespace dafs::client {

struct MountReport {
  std::string server_name;  // "host:/export"
  std::string mount_point;
  std::string requests_by;  // how the kernel's requests arrive; empty: unknown
  std::string cpu_latency;  // how fast idle CPUs wake up; empty: unknown
  uint64_t lease_seconds = 0;
  absl::Duration quiet;  // since the last response on any session
  size_t credentials = 0;
  std::vector<WorkerReport> workers;  // the control session last
  size_t silent_workers = 0;          // did not report in time

  // The calls of all workers.
  CallTotals Totals() const;
};

}  // namespace dafs::client
