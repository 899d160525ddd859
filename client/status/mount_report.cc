#include "client/status/mount_report.h"

#include <algorithm>

namespace dafs::client {

wire::CallTotals MountReport::Totals() const {
  wire::CallTotals sum;
  for (const WorkerReport& worker : workers) sum.Merge(worker.totals);
  return sum;
}

std::vector<PendingOperation> MountReport::Operations() const {
  std::vector<PendingOperation> all;
  for (const WorkerReport& worker : workers) {
    all.insert(all.end(), worker.operations.begin(), worker.operations.end());
  }
  std::stable_sort(
      all.begin(), all.end(),
      [](const PendingOperation& a, const PendingOperation& b) { return a.age > b.age; });
  return all;
}

size_t MountReport::OutstandingOperations() const {
  size_t sum = 0;
  for (const WorkerReport& worker : workers) sum += worker.outstanding_operations;
  return sum;
}

uint64_t MountReport::SlowOperations() const {
  uint64_t sum = 0;
  for (const WorkerReport& worker : workers) sum += worker.slow_operations;
  return sum;
}

std::string_view MountReport::CachingName() const {
  switch (caching) {
    case Promises::Caching::kExact:
      return "exact";
    case Promises::Caching::kBounded:
      return "bounded";
    case Promises::Caching::kTimed:
      break;
  }
  return "timed";
}

}  // namespace dafs::client
