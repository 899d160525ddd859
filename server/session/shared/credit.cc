#include "server/session/shared/credit.h"

#include <algorithm>

namespace dafs::server {

bool CreditBudget::TryReserve(size_t bytes) {
  size_t used = used_bytes_;
  do {
    if (bytes > limit_bytes_ || used > limit_bytes_ - bytes) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  return true;
}

size_t CreditBudget::share_bytes() const { return limit_bytes_ / std::max<size_t>(sessions_, 1); }

Credit::Credit(CreditBudget& budget, size_t bytes_each, uint32_t most)
    : budget_(budget), bytes_each_(bytes_each), most_(std::clamp(most, 1u, 65535u)) {
  budget_.SessionOpened();
}

Credit::~Credit() {
  budget_.Release(bytes_each_ * std::max(nreq_, target_));
  budget_.SessionClosed();
}

uint32_t Credit::Open(uint32_t wanted) {
  budget_.Reserve(bytes_each_);
  nreq_ = target_ = 1;
  wanted = std::clamp(wanted, 1u, most_);
  if (budget_.tight()) {
    wanted = std::min<uint32_t>(
        wanted, static_cast<uint32_t>(std::max<size_t>(budget_.share_bytes() / bytes_each_, 1)));
  }
  // Halves the number until the memory suffices.
  for (; wanted > 1; wanted /= 2) {
    if (!budget_.TryReserve(bytes_each_ * (wanted - 1))) continue;
    nreq_ = target_ = wanted;
    break;
  }
  return nreq_;
}

void Credit::Limit(uint32_t nreq) {
  if (nreq >= nreq_) return;
  budget_.Release(bytes_each_ * (nreq_ - nreq));
  nreq_ = target_ = nreq;
}

uint16_t Credit::Target(uint16_t desired_nreq) {
  uint32_t wanted = desired_nreq == 0 ? target_ : std::clamp<uint32_t>(desired_nreq, 1, most_);
  if (budget_.tight()) {
    uint32_t share =
        static_cast<uint32_t>(std::clamp<size_t>(budget_.share_bytes() / bytes_each_, 1, most_));
    wanted = std::min(wanted, std::max(share, 1u));
    wanted = std::min(wanted, nreq_);  // no session grows while memory is short
  }
  uint32_t held = std::max(nreq_, target_);
  if (wanted > held) {
    if (!budget_.TryReserve(bytes_each_ * (wanted - held))) wanted = held;
  }
  // Releases the memory of a target that is given up; keeps the memory for nreq_.
  uint32_t hold = std::max(nreq_, wanted);
  if (hold < held) budget_.Release(bytes_each_ * (held - hold));
  target_ = wanted;
  return static_cast<uint16_t>(target_);
}

bool Credit::ResponseSent(uint16_t target) {
  if (target >= nreq_) {
    nreq_ = target;
    return true;
  }
  --nreq_;
  budget_.Release(bytes_each_);
  return false;
}

}  // namespace dafs::server
