// Reports as people and programs read them: `dafsctl status`, `dafsctl stats`, and JSON.
// Values; any thread.
#pragma once

#include <string>
#include <vector>

#include "client/session/report.h"

namespace dafs::client {

// What is known of a mount at one moment.
struct MountReport {
  std::string server_name;  // "host:/export"
  std::string mount_point;
  std::string requests_by;  // how the kernel's requests come; empty: nobody has said
  std::string cpu_latency;  // how fast idle CPUs wake; empty: nobody has said
  uint64_t lease_seconds = 0;
  absl::Duration quiet;  // since the last answer on any session
  size_t credentials = 0;
  std::vector<WorkerReport> workers;  // the control session last
  size_t silent_workers = 0;          // did not answer in time
};

std::string StatusText(const MountReport& report);
std::string StatsText(const MountReport& report);
std::string ReportJson(const MountReport& report);

}  // namespace dafs::client
