#include "client/status/mount_report.h"

#include <algorithm>

namespace dafs::client {

CallTotals MountReport::Totals() const {
  CallTotals sum;
  for (const WorkerReport& worker : workers) {
    for (size_t i = 0; i < sum.by_proc.size(); ++i) {
      const ProcTotals& one = worker.totals.by_proc[i];
      ProcTotals& all = sum.by_proc[i];
      all.calls += one.calls;
      all.errors += one.errors;
      all.lost += one.lost;
      all.total += one.total;
      all.longest = std::max(all.longest, one.longest);
    }
  }
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

absl::Duration MountReport::MeanRecall() const {
  return delegations.recalls > 0
             ? delegations.recall_time / static_cast<int64_t>(delegations.recalls)
             : absl::ZeroDuration();
}

absl::Duration MountReport::MeanBreak() const {
  if (promises.breaks == 0) return absl::ZeroDuration();
  return promises.break_time / static_cast<double>(promises.breaks);
}

}  // namespace dafs::client
