// The state of a mount at one moment, as dafsctl reports it. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/session/report.h"
#include "client/state/delegations.h"
#include "client/state/promises.h"

namespace dafs::client {

struct MountReport {
  std::string server_name;  // "host:/export"
  std::string mount_point;
  std::string requests_by;  // how the kernel's requests arrive; empty: unknown
  std::string cpu_latency;  // how fast idle CPUs wake up; empty: unknown
  uint64_t lease_seconds = 0;
  absl::Duration quiet;  // since the last response on any session
  size_t credentials = 0;
  Promises::Caching caching = Promises::Caching::kTimed;
  Promises::Counts promises;
  Delegations::Counts delegations;
  std::vector<WorkerReport> workers;  // the control session last
  size_t silent_workers = 0;          // did not report in time

  // The calls of all workers.
  CallTotals Totals() const;
  // "exact", "bounded" or "timed".
  std::string_view CachingName() const;
  // How long the client took on average to answer an announced change.
  absl::Duration MeanBreak() const;
  // How long on average a recalled delegation took to be returned.
  absl::Duration MeanRecall() const;
};

}  // namespace dafs::client
