#include "client/exchange/receiver.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/exchange/attached.h"
#include "client/exchange/in_flight.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"
#include "wire/codec/attributes_after.h"
#include "wire/codec/checksum.h"
#include "wire/codec/codec.h"
#include "wire/protocol/fenced.h"
#include "wire/rules/request_check.h"

namespace dafs::client {
namespace {

// How often activity is recorded. Leases are longer. Recording each response would cost too much,
// since the sessions of all workers write to one place.
constexpr absl::Duration kNoteEvery = absl::Milliseconds(100);

// Spec: 3.1.1.1.1: what a session has proven may expire by the server's clock before the client
// renews it. The session then ends, which every waiter for a response can handle. Refusals of the
// login itself are results.
bool EndsProof(const Slot& slot, wire::DafsStatus status) {
  return status == wire::DafsStatus::kNotAuthenticated && !wire::IsConnect(slot.proc) &&
         slot.proc != wire::Proc::kClientAuth;
}

}  // namespace

Receiver::Receiver(SessionContext& context, MessageBuffers& buffers, Slots& slots,
                   WindowInvalidator& windows, Exchanges& exchanges)
    : context_(context),
      buffers_(buffers),
      slots_(slots),
      windows_(windows),
      exchanges_(exchanges),
      last_heard_(Loop::Now()) {}

absl::Status Receiver::PostReceives() {
  for (size_t i = 0; i < slots_.size(); ++i) RETURN_IF_ERROR(PostReceive(i));
  return absl::OkStatus();
}

absl::Status Receiver::PostReceive(size_t index) {
  return context_.link.endpoint().PostReceive(index, buffers_.ReceiveSegment(index));
}

void Receiver::OnReceive(size_t index, uint32_t size_bytes) {
  if (windows_.used() && WaitsForWindow(index, size_bytes)) return;
  HandleMessage(index, size_bytes);
}

void Receiver::OnInvalidated(uint64_t cookie) {
  windows_.OnInvalidated(cookie);
  while (context_.link.usable()) {
    const std::optional<WindowInvalidator::Response> response = windows_.NextReady();
    if (!response.has_value()) return;
    HandleMessage(response->index, response->size_bytes);
  }
}

bool Receiver::WaitsForWindow(size_t index, uint32_t size_bytes) {
  auto decoded =
      wire::DecodeResponseHeader(buffers_.Received(index, size_bytes), context_.negotiated.order);
  absl::StatusOr<Slot*> slot = decoded.ok() ? slots_.Match(decoded->header) : decoded.status();
  return windows_.Delays({index, size_bytes, slot.ok() ? *slot : nullptr});
}

void Receiver::HandleMessage(size_t index, uint32_t size_bytes) {
  last_heard_ = Loop::Now();
  Link& link = context_.link;
  const std::span<const std::byte> message = buffers_.Received(index, size_bytes);
  const wire::ByteOrder order = context_.negotiated.order;
  auto decoded = wire::DecodeResponseHeader(message, order);
  if (!decoded.ok()) return link.Fail(decoded.status());
  const wire::ResponseHeader& header = decoded->header;
  peer_version_ = header.protocol_version;
  // Spec 3.2.5: a damaged message is dropped, and its request has failed. The analyzer identifies
  // the request. If the analyzer is damaged too, no request matches and the session ends.
  const bool damaged = context_.negotiated.checksums &&
                       wire::MessageChecksum(message, order) != header.message_checksum;
  absl::StatusOr<Slot*> slot = slots_.Match(header);
  if (!slot.ok()) return link.Fail(slot.status());
  if (damaged) {
    slots_.credits().NoteDamagedResponse();
  } else {
    slots_.credits().NoteResponse(header.target_nreq);
    // Before the renewal: after the end of promises it must not look as if the server were heard.
    if (header.spec_cond != 0) {
      context_.client.promises().Heard(header.spec_cond);
      if ((header.spec_cond & wire::kSpcondFailover) != 0) context_.client.failover().Changed();
      if ((header.spec_cond & wire::kSpcondFenced) != 0) {
        context_.client.NoteFencedOff(Loop::Now());
      }
    }
    NoteRenewal(**slot, header.status);
  }
  // Released last: `pin` may resume a waiter for a buffer, and `hold` may end an I/O.
  BufferPin pin = std::move((*slot)->pin);
  MemoryHold hold = std::move((*slot)->hold);
  absl::Status status = Deliver(**slot, message, header, damaged);
  if (!status.ok()) return link.Fail(std::move(status));
  // A failure here does not affect the response just received.
  status = PostReceive(index);
  if (!status.ok()) link.Fail(std::move(status));
  Complete(**slot);
}

absl::Status Receiver::Deliver(Slot& slot, std::span<const std::byte> message,
                               const wire::ResponseHeader& header, bool damaged) {
  slot.expects_answer = false;
  Count(slot, message.size(), header.status);
  if (!damaged && EndsProof(slot, header.status)) {
    // The server has not executed the request, so it counts as one that was not sent.
    if (slot.call != nullptr) slot.call->sent = false;
    return absl::UnavailableError(
        "the server no longer accepts this client's authentication; the next session authenticates "
        "again");
  }
  if (slot.exchange == nullptr) return absl::OkStatus();  // the waiter has given up
  CallBase& call = *slot.call;
  if (damaged) {
    --slot.exchange->unanswered;
    call.damaged = slot.exchange->damaged = true;
    return absl::OkStatus();
  }
  // All of the response is decoded before Decode records its effects, such as an open.
  std::optional<wire::AttributesAfter> attributes;
  absl::Status decoded;
  if (header.attributes_at != 0 && AttributeFlags(call) != 0) {
    decoded = wire::DecodeAttributes(message, header.attributes_at, context_.negotiated.order,
                                     attributes.emplace());
  }
  if (decoded.ok()) decoded = call.Decode(message, context_.negotiated.order, header.status);
  if (!decoded.ok()) {  // the exchange stays open until the end of the session ends it
    return absl::DataLossError(absl::StrCat(Text(wire::Name(slot.proc)), " response of ",
                                            context_.peer.ToString(), ": ", decoded.message()));
  }
  if (call.in_flight != nullptr) {
    call.in_flight->Answered(call, message, context_.negotiated.order, header.status);
  }
  call.spec_cond = header.spec_cond;
  if (attributes.has_value()) TakeAttributes(call, *std::move(attributes));
  --slot.exchange->unanswered;
  const wire::DirectBytes moved = call.direct_bytes;
  if (moved.to_client + moved.to_server > 0) {
    wire::ProcedureTotals& totals = context_.totals[slot.proc];
    totals.received_bytes += moved.to_client;
    totals.sent_bytes += moved.to_server;
  }
  call.answered = true;
  call.status = header.status;
  call.took = last_heard_ - slot.posted;
  return absl::OkStatus();
}

// Frees the slot, and resumes the chain if this was its last response.
void Receiver::Complete(Slot& slot) {
  Exchange* const exchange = std::exchange(slot.exchange, nullptr);
  slot.call = nullptr;
  slots_.Release(slot);
  if (exchange == nullptr || exchange->unanswered > 0) return;
  exchanges_.Wake(*exchange, exchange->damaged
                                 ? absl::UnavailableError(absl::StrCat(
                                       NamesOf(exchange->chain), ": answer with a wrong checksum"))
                                 : absl::OkStatus());
}

void Receiver::Count(const Slot& slot, size_t size_bytes, wire::DafsStatus status) {
  wire::ProcedureTotals& totals = context_.totals[slot.proc];
  totals.time.Add(last_heard_ - slot.posted);
  totals.received_bytes += size_bytes;
  if (status != wire::DafsStatus::kOk) ++totals.errors;
}

// 4.4.1.2: the server renewed the leases when the request arrived. The client counts from the time
// of sending, which is earlier. After EXPIRED a renewal cannot be assumed, and a session that must
// authenticate again renews nothing.
void Receiver::NoteRenewal(const Slot& slot, wire::DafsStatus status) {
  if (status == wire::DafsStatus::kExpired || status == wire::DafsStatus::kNotAuthenticated ||
      last_heard_ - last_noted_ < kNoteEvery) {
    return;
  }
  last_noted_ = last_heard_;
  context_.client.NoteActivity(slot.posted, last_heard_);
}

}  // namespace dafs::client
