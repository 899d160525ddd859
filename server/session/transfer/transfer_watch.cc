#include "server/session/transfer/transfer_watch.h"

#include <utility>

namespace dafs::server {

TransferWatch::TransferWatch(Loop& loop, absl::Duration limit,
                             absl::AnyInvocable<void(uint32_t)> stalled)
    : loop_(loop), limit_(limit), stalled_(std::move(stalled)) {}

void TransferWatch::Begin(uint32_t count) {
  if (outstanding_ == 0) ++progress_;  // restarts the time limit
  outstanding_ += count;
  if (timer_ == 0) SetTimer();
}

void TransferWatch::Complete(uint32_t count) {
  outstanding_ -= count;
  ++progress_;
}

void TransferWatch::Stop() {
  stopped_ = true;
  loop_.Cancel(std::exchange(timer_, 0));
}

// One timer at a time. It is set again only if operations are in progress when it expires.
void TransferWatch::SetTimer() {
  if (stopped_) return;
  watched_ = progress_;
  timer_ = loop_.RunAfter(limit_, [this] {
    timer_ = 0;
    if (outstanding_ == 0) return;
    if (progress_ != watched_) return SetTimer();
    stalled_(outstanding_);
  });
}

}  // namespace dafs::server
