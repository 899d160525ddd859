#include "wire/protocol/totals_json.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace dafs::wire {

nlohmann::ordered_json TotalsJson(const ProcedureTotals& totals) {
  nlohmann::ordered_json json = {{"calls", totals.calls()},
                                 {"errors", totals.errors},
                                 {"sent_bytes", totals.sent_bytes},
                                 {"received_bytes", totals.received_bytes},
                                 {"queued", totals.queued},
                                 {"queue_us", absl::ToInt64Microseconds(totals.queue_time)}};
  AddTimes(totals.time, "", json);
  return json;
}

void AddTimes(const LatencyHistogram& time, const char* prefix, nlohmann::ordered_json& object) {
  const auto add = [&](const char* name, absl::Duration value) {
    object[absl::StrCat(prefix, name)] = absl::ToInt64Microseconds(value);
  };
  add("total_us", time.total());
  add("mean_us", time.Mean());
  add("p50_us", time.Quantile(0.5));
  add("p99_us", time.Quantile(0.99));
  add("longest_us", time.longest());
  object[absl::StrCat(prefix, "buckets")] = time.Counts();
}

}  // namespace dafs::wire
