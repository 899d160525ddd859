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

}  // namespace dafs::client
