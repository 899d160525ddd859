#include "runtime/busy_hold.h"

#include <utility>

namespace dafs {

bool BusyHold::IsBusy(absl::Time now) { return now - std::exchange(last_, now) < kWithin; }

void BusyHold::Hold() {
  if (std::exchange(holds_, true)) return;
  looked_at_ = turns_;
  latency_->Hold();
}

bool BusyHold::Look() {
  if (!holds_) return false;
  if (turns_ - std::exchange(looked_at_, turns_) >= kTurns) return true;
  Release();
  return false;
}

void BusyHold::Release() {
  if (!std::exchange(holds_, false)) return;
  last_ = absl::InfinitePast();
  latency_->Release();
}

}  // namespace dafs
