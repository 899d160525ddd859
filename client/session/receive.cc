// Handling of responses, and of the end of a session. Spec: WIRE 2.5, 3.2, 6, 11.5; 3.1.2.5.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/session/session.h"
#include "client/session/slots.h"
#include "runtime/log.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"
#include "wire/codec/checksum.h"
#include "wire/codec/codec.h"

namespace dafs::client {
namespace {

// How often activity is recorded. Leases are longer. Recording each response would cost too much,
// since the sessions of all workers write to one place.
constexpr absl::Duration kNoteEvery = absl::Milliseconds(100);

}  // namespace

absl::Status Session::PostReceive(size_t index) {
  std::byte* at = memory_.data() + slots_.size() * send_bytes_ + index * receive_bytes_;
  return endpoint_->PostReceive(index, dat::Segment{at, receive_bytes_, region_.get()});
}

dat::WaitHandle Session::Arm() {
  if (post_with_turn_) PostAll();
  return endpoint_->Arm();
}

bool Session::Poll() {
  if (state_ == State::kDead) return false;
  if (post_with_turn_) PostAll();
  size_t count = endpoint_->Poll(completions_);
  for (size_t i = 0; i < count; ++i) {
    Handle(completions_[i]);
    if (state_ == State::kDead) return true;
  }
  if (count == 0) return false;
  ServeSlotWaiters();
  MaybeShrink();
  return true;
}

void Session::Handle(const dat::Completion& completion) {
  switch (completion.event) {
    case dat::Event::kConnected:
      if (connecting_ != nullptr) std::exchange(connecting_, nullptr)->Set(true);
      return;
    case dat::Event::kReceive:
      // After a failed or flushed receive, kDisconnected follows.
      if (!completion.status.ok() || state_ >= State::kDying) return;
      if (windows_ && WaitsForWindow(completion.cookie, completion.size_bytes)) return;
      HandleMessage(completion.cookie, completion.size_bytes);
      return;
    case dat::Event::kInvalidated:
      // After a failure, kDisconnected follows.
      if (completion.status.ok()) WindowEnded(completion.cookie);
      return;
    case dat::Event::kSend:
      if (completion.cookie < slots_.size()) {
        Slot& slot = slots_[completion.cookie];
        slot.sending = false;
        FreeSlot(slot);
      }
      return;
    case dat::Event::kDisconnected:
      if (why_.ok()) {
        why_ = completion.status.ok() ? absl::UnavailableError("the server closed the connection")
                                      : completion.status;
      }
      Die();
      return;
    case dat::Event::kRdmaWrite:
    case dat::Event::kRdmaRead:
      return;  // only the server issues RDMA
  }
}

void Session::HandleMessage(size_t index, uint32_t size_bytes) {
  last_heard_ = dat::Loop::Now();
  std::byte* at = memory_.data() + slots_.size() * send_bytes_ + index * receive_bytes_;
  std::span<const std::byte> message(at, size_bytes);
  auto decoded = wire::DecodeResponseHeader(message, negotiated_.order);
  if (!decoded.ok()) return Fail(decoded.status());
  const wire::ResponseHeader& header = decoded->header;
  peer_version_ = header.protocol_version;
  // Spec 3.2.5: a damaged message is dropped, and its request has failed. The analyzer identifies
  // the request. If the analyzer is damaged too, no request matches and the session ends.
  bool damaged = checksums_due_ &&
                 wire::MessageChecksum(message, negotiated_.order) != header.message_checksum;
  absl::StatusOr<Slot*> slot = Match(header);
  if (!slot.ok()) return Fail(slot.status());
  if (!damaged) {
    NoteRenewal(**slot, header.status);
    target_nreq_ = std::max<uint32_t>(header.target_nreq, 1);
  }
  // WIRE 11.5: an increase of the credits applies at once; a decrease applies by one for each
  // response. The target of a damaged response is unknown. It may have taken a credit back, so it
  // counts as a decrease by one; the next response corrects that upwards.
  nreq_ = std::max(nreq_ - 1, damaged ? 1 : target_nreq_);
  // Released last: `pin` may resume a waiter for a buffer, and `hold` may end an I/O.
  BufferPin pin = std::move((*slot)->pin);
  MemoryHold hold = std::move((*slot)->hold);
  absl::Status status = Deliver(**slot, message, header, damaged);
  if (!status.ok()) return Fail(std::move(status));
  // A failure here does not affect the response just received.
  status = PostReceive(index);
  if (!status.ok()) Fail(std::move(status));
  Exchange* exchange = std::exchange((*slot)->exchange, nullptr);
  (*slot)->call = nullptr;
  FreeSlot(**slot);
  if (exchange == nullptr || exchange->unanswered > 0) return;
  Finish(*exchange, exchange->damaged
                        ? absl::UnavailableError(absl::StrCat(NamesOf(exchange->chain),
                                                              ": answer with a wrong checksum"))
                        : absl::OkStatus());
}

// 4.4.1.2: the server renewed the leases when the request arrived. The client counts from the time
// of sending, which is earlier. After EXPIRED a renewal cannot be assumed.
void Session::NoteRenewal(const Slot& slot, wire::DafsStatus status) {
  if (status == wire::DafsStatus::kExpired || last_heard_ - last_noted_ < kNoteEvery) return;
  last_noted_ = last_heard_;
  client_.NoteActivity(slot.posted, last_heard_);
}

// Finds the request that `header` answers. Spec: 6.1.3: the response repeats stream_id, seq_number
// and analyzer of the request.
absl::StatusOr<Session::Slot*> Session::Match(const wire::ResponseHeader& header) {
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

absl::Status Session::Deliver(Slot& slot, std::span<const std::byte> message,
                              const wire::ResponseHeader& header, bool damaged) {
  slot.expects_answer = false;
  ProcTotals& totals = totals_[slot.proc];
  absl::Duration took = last_heard_ - slot.posted;
  ++totals.calls;
  totals.total += took;
  totals.longest = std::max(totals.longest, took);
  if (header.status != wire::DafsStatus::kOk) ++totals.errors;
  if (slot.exchange == nullptr) return absl::OkStatus();  // the waiter has given up
  --slot.exchange->unanswered;
  CallBase& call = *slot.call;
  if (damaged) {
    call.damaged = slot.exchange->damaged = true;
    return absl::OkStatus();
  }
  absl::Status decoded = call.Decode(message, negotiated_.order, header.status);
  if (!decoded.ok()) {
    ++slot.exchange->unanswered;  // the exchange stays open until Die ends it
    return absl::DataLossError(absl::StrCat(Text(wire::Name(slot.proc)), " response of ",
                                            peer_.ToString(), ": ", decoded.message()));
  }
  call.answered = true;
  call.status = header.status;
  return absl::OkStatus();
}

// ---- The end ---------------------------------------------------------------------------------

// Aborts the connection. The rest follows when the transport reports kDisconnected.
void Session::Fail(absl::Status why) {
  if (state_ >= State::kDying) return;
  state_ = State::kDying;
  why_ = std::move(why);
  endpoint_->Abort(why_);
  loop_.Touch(this);
}

// The connection has ended: the server cannot access any buffer.
void Session::Die() {
  state_ = State::kDead;
  loop_.Cancel(std::exchange(tick_, 0));
  loop_.Cancel(std::exchange(post_timer_, 0));
  loop_.Remove(this);
  if (windows_) pool_->exposure().UseWindows(nullptr);
  EndChannels();
  ResumeAll();
  if (lost_) std::exchange(lost_, nullptr)();
}

void Session::Kill(absl::Status why) {
  if (state_ == State::kDead) return;
  lost_ = nullptr;
  why_ = std::move(why);
  state_ = State::kDead;
  loop_.Cancel(std::exchange(tick_, 0));
  loop_.Cancel(std::exchange(post_timer_, 0));
  loop_.Remove(this);
  if (windows_) pool_->exposure().UseWindows(nullptr);
  EndChannels();
  endpoint_.reset();
  ResumeAll();
}

// Resumes waiters for a channel, and ends the server's access to memory over the channels.
void Session::EndChannels() {
  read_channel_bound_ = back_control_bound_ = false;
  std::unique_ptr<Channel> read_channel = std::move(read_channel_);
  std::unique_ptr<BackControl> back_control = std::move(back_control_);
  if (read_channel != nullptr) read_channel->Kill(why_);
  if (back_control != nullptr) back_control->Kill(why_);
}

// Resumes each waiter exactly once: it is removed from its list first, and a dead session adds
// none.
void Session::ResumeAll() {
  for (Slot& slot : slots_) {
    if (slot.expects_answer && slot.exchange != nullptr) ++totals_[slot.proc].lost;
    slot.expects_answer = slot.sending = false;
    slot.windows.clear();
    slot.ending = 0;
    slot.exchange = nullptr;
    slot.call = nullptr;
    BufferPin pin = std::move(slot.pin);
    MemoryHold hold = std::move(slot.hold);
  }
  in_flight_ = 0;
  unposted_.clear();
  waiting_.clear();
  holders_.clear();
  while (Exchange* exchange = first_exchange_) {
    Finish(*exchange, absl::UnavailableError(absl::StrCat(NamesOf(exchange->chain),
                                                          ": session lost: ", why_.message())));
  }
  while (SlotWaiter* waiter = first_waiter_) {
    first_waiter_ = waiter->next;
    if (first_waiter_ == nullptr) last_waiter_ = nullptr;
    waiter->status = absl::UnavailableError(absl::StrCat("session lost: ", why_.message()));
    waiter->waiter.resume();
  }
  if (connecting_ != nullptr) std::exchange(connecting_, nullptr)->Set(false);
  if (closing_ != nullptr) std::exchange(closing_, nullptr)->Set(true);
}

}  // namespace dafs::client
