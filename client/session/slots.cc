#include "client/session/slots.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dafs::client {

// The number of requests that may be outstanding: streams 0 .. Nreq-1 (WIRE 11.5), at most
// slots_.size(), which have buffers.
uint32_t Session::Capacity() const { return std::min(nreq_, static_cast<uint32_t>(slots_.size())); }

// The caller has checked CanTake(slots.size()). So enough streams below Nreq are free: each of the
// in_flight_ requests takes at most one of them.
void Session::Take(std::span<uint16_t> slots) {
  size_t word = 0;
  for (uint16_t& slot : slots) {
    while (free_[word] == 0) ++word;
    auto bit = static_cast<unsigned>(std::countr_zero(free_[word]));
    free_[word] &= free_[word] - 1;
    slot = static_cast<uint16_t>(64 * word + bit);
  }
  in_flight_ += static_cast<uint32_t>(slots.size());
}

void Session::FreeSlot(Slot& slot) {
  if (slot.expects_answer || slot.sending) return;
  auto index = static_cast<size_t>(&slot - slots_.data());
  free_[index / 64] |= uint64_t{1} << (index % 64);
  --in_flight_;
}

bool Session::SlotWaiter::await_ready() {
  if (session.state_ >= State::kDying) {
    status = absl::UnavailableError(absl::StrCat("session lost: ", session.why_.message()));
    return true;
  }
  if (count > session.Capacity()) {
    status = absl::ResourceExhaustedError("fewer credits than members of the chain");
    return true;
  }
  if (session.first_waiter_ == nullptr && session.CanTake(count)) {
    session.Take(std::span(slots).first(count));
    return true;
  }
  session.starved_ = true;
  return false;
}

void Session::SlotWaiter::await_suspend(std::coroutine_handle<> handle) {
  waiter = handle;
  (session.last_waiter_ != nullptr ? session.last_waiter_->next : session.first_waiter_) = this;
  session.last_waiter_ = this;
  session.StartTicking();
  session.PostAll();  // responses of posted requests free slots
}

void Session::ServeSlotWaiters() {
  while (SlotWaiter* first = first_waiter_) {
    if (state_ >= State::kDying) return;  // Die resumes them
    if (first->count > Capacity()) {
      first->status = absl::ResourceExhaustedError("fewer credits than members of the chain");
    } else if (CanTake(first->count)) {
      Take(std::span(first->slots).first(first->count));
    } else {
      return;
    }
    first_waiter_ = first->next;
    if (first_waiter_ == nullptr) last_waiter_ = nullptr;
    first->waiter.resume();
  }
}

}  // namespace dafs::client
