// Counters of the requests of each procedure. A client and a server have the same ones, counted at
// their own end.
// Values; each belongs to one thread, and is copied for reports.
#pragma once

#include <array>
#include <cstdint>

#include "absl/time/time.h"
#include "runtime/latency.h"
#include "wire/protocol/procedures.h"

namespace dafs::wire {

struct ProcedureTotals {
  // Client: from the post of the request to its response. Server: from its arrival to its response.
  LatencyHistogram time;
  uint64_t errors = 0;  // the response's status was not OK
  // Messages, and the data that the server moved by RDMA.
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  // Requests that had to wait before that (client: for a slot or credit), or before they were
  // executed (server; part of `time`), and how long they did in total.
  uint64_t queued = 0;
  absl::Duration queue_time;
  // Only of a client.
  uint64_t lost = 0;     // no response: session lost, or timeout
  uint64_t retries = 0;  // issued again

  uint64_t calls() const { return time.count(); }
  bool unused() const { return calls() + lost + retries == 0; }
  void Merge(const ProcedureTotals& other);
};

// One entry for each row of kProcedures.
struct CallTotals {
  std::array<ProcedureTotals, kProcedures.size()> by_proc;

  ProcedureTotals& operator[](Proc proc) { return by_proc[RowOf(InfoOf(proc))]; }
  const ProcedureTotals& operator[](Proc proc) const { return by_proc[RowOf(InfoOf(proc))]; }
  void Merge(const CallTotals& other);
};

}  // namespace dafs::wire
