// Counters and times as members of the JSON that dafsctl(8) documents. Pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/latency.h"
#include "wire/protocol/procedure_totals.h"

namespace dafs::wire {

// The counters that a client and a server have. A client adds `lost` and `retries`.
nlohmann::ordered_json TotalsJson(const ProcedureTotals& totals);
// Adds PREFIXtotal_us, PREFIXmean_us, PREFIXp50_us, PREFIXp99_us, PREFIXlongest_us, and
// PREFIXbuckets to `object`.
void AddTimes(const LatencyHistogram& time, const char* prefix, nlohmann::ordered_json& object);

}  // namespace dafs::wire
