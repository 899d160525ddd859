#include "client/recovery/calls/operation_times.h"

#include <algorithm>
#include <utility>

#include "client/exchange/call.h"

namespace dafs::client {

OperationTimes OperationClock::End(uint64_t number) {
  const auto it = times_.find(number);
  if (it == times_.end()) return {};
  OperationTimes times = it->second;
  times_.erase(it);
  return times;
}

void OperationClock::AddExchange(uint64_t number, std::span<CallBase* const> chain) {
  const auto it = times_.find(number);
  if (it == times_.end()) return;
  OperationTimes& times = it->second;
  times.queue += chain.front()->queued;
  absl::Duration took;  // the members were sent together
  for (const CallBase* call : chain) {
    took = std::max(took, call->took);
    if (!call->answered || call->took <= times.slowest_took) continue;
    times.slowest_took = call->took;
    times.slowest = call->info().name;
  }
  times.server += took;
}

void OperationClock::AddWait(uint64_t number, absl::Duration time) {
  const auto it = times_.find(number);
  if (it != times_.end()) it->second.session += time;
}

}  // namespace dafs::client
