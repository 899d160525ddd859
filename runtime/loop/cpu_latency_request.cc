#include "runtime/loop/cpu_latency_request.h"

#include <utility>

namespace dafs {

bool CpuLatencyRequest::IsBusy(absl::Time now) { return now - std::exchange(last_, now) < kWithin; }

void CpuLatencyRequest::Hold() {
  if (std::exchange(holds_, true)) return;
  looked_at_ = turns_;
  latency_->Hold();
}

bool CpuLatencyRequest::Look() {
  if (!holds_) return false;
  if (turns_ - std::exchange(looked_at_, turns_) >= kTurns) return true;
  Release();
  return false;
}

void CpuLatencyRequest::Release() {
  if (!std::exchange(holds_, false)) return;
  last_ = absl::InfinitePast();
  latency_->Release();
}

}  // namespace dafs
