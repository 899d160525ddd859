#include "wire/protocol/procedure_totals.h"

#include <cstddef>

namespace dafs::wire {

void ProcedureTotals::Merge(const ProcedureTotals& other) {
  time.Merge(other.time);
  errors += other.errors;
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  queued += other.queued;
  queue_time += other.queue_time;
  lost += other.lost;
  retries += other.retries;
}

void CallTotals::Merge(const CallTotals& other) {
  for (size_t i = 0; i < by_proc.size(); ++i) by_proc[i].Merge(other.by_proc[i]);
}

}  // namespace dafs::wire
