#include "client/exchange/slots.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace dafs::client {
namespace {

absl::Status TooFewCredits() {
  return absl::ResourceExhaustedError("fewer credits than members of the chain");
}

}  // namespace

Slots::Slots(size_t count, const dat::Address& peer)
    : peer_(peer), slots_(count), free_((count + 63) / 64) {
  for (size_t i = 0; i < count; ++i) free_[i / 64] |= uint64_t{1} << (i % 64);
}

// The number of requests that may be outstanding: streams 0 .. Nreq-1 (WIRE 11.5), at most size(),
// which have buffers.
uint32_t Slots::Capacity() const {
  return std::min(credits_.nreq(), static_cast<uint32_t>(size()));
}

// The caller has checked CanTake(indices.size()). So enough streams below Nreq are free: each of
// the taken_ requests takes at most one of them.
void Slots::Take(std::span<uint16_t> indices) {
  size_t word = 0;
  for (uint16_t& index : indices) {
    while (free_[word] == 0) ++word;
    auto bit = static_cast<unsigned>(std::countr_zero(free_[word]));
    free_[word] &= free_[word] - 1;
    index = static_cast<uint16_t>(64 * word + bit);
  }
  taken_ += static_cast<uint32_t>(indices.size());
}

void Slots::Release(Slot& slot) {
  if (slot.expects_answer || slot.sending) return;
  const size_t index = IndexOf(slot);
  free_[index / 64] |= uint64_t{1} << (index % 64);
  --taken_;
}

void Slots::Clear() {
  for (Slot& slot : slots_) {
    slot.expects_answer = slot.sending = false;
    slot.windows.clear();
    slot.ending = 0;
    slot.exchange = nullptr;
    slot.call = nullptr;
    BufferPin pin = std::move(slot.pin);
    MemoryHold hold = std::move(slot.hold);
  }
  taken_ = 0;
}

// ---- Waiting for slots -----------------------------------------------------------------------

bool Slots::MustWait(size_t count) const {
  return count <= Capacity() && (has_waiters() || !CanTake(count));
}

bool Slots::Taking::await_ready() {
  if (count_ > slots_.Capacity()) return EndNow(TooFewCredits());
  if (slots_.MustWait(count_)) {
    slots_.credits_.Want();
    return false;
  }
  Take();
  return true;
}

void Slots::Taking::await_suspend(std::coroutine_handle<> handle) {
  Waiter::await_suspend(handle);
  slots_.waiting_.Add(*this);
}

bool Slots::ServeFirst() {
  Taking* const first = waiting_.first();
  if (first == nullptr) return false;
  absl::Status status;
  if (first->count_ > Capacity()) {
    status = TooFewCredits();
  } else if (CanTake(first->count_)) {
    first->Take();
  } else {
    return false;
  }
  waiting_.Wake(*first, std::move(status));
  return true;
}

void Slots::EndOverdue(absl::Time now) {
  for (Taking* taking = waiting_.first(); taking != nullptr;) {
    if (now < taking->deadline_) {
      taking = waiting_.Next(*taking);
      continue;
    }
    waiting_.Wake(*taking,
                  absl::DeadlineExceededError(absl::StrCat("no request slot for ", peer_.ToString(),
                                                           ": all ", taken_, " are taken")));
    taking = waiting_.first();  // the queue may have changed
  }
}

// ---- Responses -------------------------------------------------------------------------------

// The response repeats stream_id, seq_number and analyzer of the request.
absl::StatusOr<Slot*> Slots::Match(const wire::ResponseHeader& header) {
  const uint64_t analyzer = wire::OpaqueToUint64(header.analyzer);
  const uint64_t index = analyzer & 0xffffffff;
  if (index < slots_.size()) {
    Slot& slot = slots_[index];
    if (slot.expects_answer && slot.generation == analyzer >> 32 && header.stream_id == index &&
        header.seq_number == slot.seq_number) {
      return &slot;
    }
  }
  return absl::DataLossError(absl::StrCat("response of ", peer_.ToString(),
                                          " to no request: stream ", header.stream_id,
                                          ", seq_number ", header.seq_number));
}

}  // namespace dafs::client
