// The state of a mount at one moment, as dafsctl reports it. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/exchange/report.h"
#include "client/state/delegations.h"
#include "client/state/promises.h"
#include "client/state/server/paths.h"

namespace dafs::client {

// A user who has a session, if each user has one.
struct UserReport {
  uint32_t uid = 0;
  size_t opens = 0;      // at the server
  absl::Duration quiet;  // since the last response; infinite: there was none
};

struct MountReport {
  std::string server_name;  // "host:/export"
  std::string mount_point;
  std::string requests_by;  // how the kernel's requests arrive; empty: unknown
  std::string cpu_latency;  // how fast idle CPUs wake up; empty: unknown
  absl::Duration slow;      // operations that take this long are logged; zero: none
  absl::Duration up;        // since the mount began
  uint64_t restarts = 0;    // how often another program has continued this mount
  absl::Time restarted_at;  // the last time; wall clock
  uint64_t lease_seconds = 0;
  absl::Duration quiet;  // since the last response on any session
  size_t credentials = 0;
  Promises::Caching caching = Promises::Caching::kTimed;
  Promises::Counts promises;
  Delegations::Counts delegations;
  std::vector<Paths::Report> paths;   // to the server, in the order of the options
  std::vector<WorkerReport> workers;  // the control session last
  size_t silent_workers = 0;          // did not report in time
  std::vector<UserReport> users;      // the last active one first

  // The calls of all workers.
  wire::CallTotals Totals() const;
  // "exact", "bounded" or "timed".
  std::string_view CachingName() const;
  // The operations of all workers that were reported, the oldest first.
  std::vector<PendingOperation> Operations() const;
  size_t OutstandingOperations() const;
  uint64_t SlowOperations() const;
};

}  // namespace dafs::client
