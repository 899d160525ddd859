#include "client/exchange/sender.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/exchange/attached.h"
#include "client/exchange/in_flight.h"

namespace dafs::client {
namespace {

// The longest delay of a call that can wait. Longer than one tick of the kernel, see PostAll.
constexpr absl::Duration kMostWait = absl::Milliseconds(5);

// Whether a state-modifying request follows `index`. If so, the simple requests before it set
// DAFS_CHF_SAVE, so that the server caches their results (4.3.1).
bool ModifiesLater(std::span<CallBase* const> chain, size_t index) {
  return std::any_of(
      chain.begin() + static_cast<ptrdiff_t>(index) + 1, chain.end(),
      [](const CallBase* call) { return wire::ModifiesState(call->info().category); });
}

uint16_t ChainFlags(std::span<CallBase* const> chain, size_t index) {
  const CallBase& call = *chain[index];
  unsigned flags = 0;
  if (index + 1 < chain.size()) flags |= wire::kChfForw;
  if (index > 0) flags |= wire::kChfBack;
  if (call.chf_fh) flags |= wire::kChfFh;
  if (call.chf_state_id) flags |= wire::kChfStateId;
  if (chain.size() > 1 && call.info().category == wire::Category::kSimple &&
      ModifiesLater(chain, index)) {
    flags |= wire::kChfSave;
  }
  return static_cast<uint16_t>(flags | AttributeFlags(call));
}

}  // namespace

Sender::Sender(SessionContext& context, MessageBuffers& buffers, Slots& slots,
               WindowInvalidator& windows)
    : context_(context), buffers_(buffers), slots_(slots), windows_(windows) {
  unposted_.reserve(slots.size());
}

absl::Status Sender::Prepare(wire::CredHandle cred, Exchange& exchange,
                             std::span<const uint16_t> indices) {
  std::array<uint32_t, kMaxChain> bytes;
  for (size_t i = 0; i < indices.size(); ++i) {
    Slot& slot = slots_[indices[i]];
    absl::StatusOr<size_t> size = Encode(cred, exchange.chain, i, slot);
    if (windows_.used()) context_.pool->remote_access().Take(slot.windows);
    if (!size.ok()) return Drop(size.status(), indices);
    bytes[i] = static_cast<uint32_t>(*size);
  }
  slots_.credits().Requested();
  exchange.since = Loop::Now();
  exchange.unanswered = indices.size();
  const uint64_t asked = context_.client.promises().sequence();
  for (size_t i = 0; i < indices.size(); ++i) {
    Slot& slot = slots_[indices[i]];
    CallBase* const call = exchange.chain[i];
    slot.exchange = &exchange;
    slot.call = call;
    slot.hold = MemoryHold(call->memory_use);
    slot.proc = call->proc();
    slot.posted = exchange.since;
    slot.expects_answer = true;
    ++slot.seq_number;
    ++slot.generation;
    call->xid = XidOf(exchange.chain, i, indices[i]);
    call->asked = asked;
    if (call->in_flight != nullptr) call->in_flight->Sent(*call);
    unposted_.push_back({indices[i], bytes[i]});
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> Sender::Encode(wire::CredHandle cred, std::span<CallBase* const> chain,
                                      size_t index, Slot& slot) {
  const uint16_t stream = slots_.IndexOf(slot);
  wire::RequestHeader header;
  header.desired_nreq = slots_.desired_nreq();
  header.chain_flags = ChainFlags(chain, index);
  header.stream_id = stream;
  header.seq_number = static_cast<uint16_t>(slot.seq_number + 1);
  header.analyzer =
      wire::OpaqueFromUint64<wire::Analyzer>(uint64_t{slot.generation + 1} << 32 | stream);
  header.cred_handle = cred;
  const Negotiated& negotiated = context_.negotiated;
  return chain[index]->Encode(header, negotiated.order,
                              buffers_.Send(stream).first(negotiated.max_request_size),
                              negotiated.checksums);
}

// Returns `why`, after it has freed the slots of a chain that cannot be sent.
absl::Status Sender::Drop(const absl::Status& why, std::span<const uint16_t> indices) {
  for (const uint16_t index : indices) {
    windows_.Drop(slots_[index]);
    slots_.Release(slots_[index]);
  }
  // A window could not be bound: end the session, so that a retry uses another one.
  if (windows_.used() && absl::IsUnavailable(why)) context_.link.Fail(why);
  return why;
}

// Spec: 4.3.1, 5.2.1: the server caches responses to requests that modify state, and to those with
// DAFS_CHF_SAVE.
Xid Sender::XidOf(std::span<CallBase* const> chain, size_t index, uint16_t slot) {
  const Negotiated& negotiated = context_.negotiated;
  Xid xid;
  xid.session_id = negotiated.session_id;
  xid.client_id = negotiated.client_id;
  xid.auth = negotiated.auth;
  xid.stream_id = slot;
  xid.seq_number = slots_[slot].seq_number;
  // A batch that was cut off is issued again, whether it was executed or not (5.2.3).
  xid.cached = negotiated.response_cache && chain[index]->proc() != wire::Proc::kBatchSubmit &&
               (wire::ModifiesState(chain[index]->info().category) ||
                (ChainFlags(chain, index) & wire::kChfSave) != 0);
  return xid;
}

void Sender::Post(std::span<CallBase* const> chain) {
  const bool can_wait =
      std::all_of(chain.begin(), chain.end(), [](const CallBase* call) { return call->can_wait; });
  if (can_wait) return PostSoon();
  const bool with_turn = std::all_of(chain.begin(), chain.end(),
                                     [](const CallBase* call) { return call->leaves_with_turn; });
  if (!with_turn) return PostAll();
  if (!std::exchange(with_turn_, true)) context_.link.RequestPoll();
}

void Sender::PostSoon() {
  if (timer_ != 0) return;
  timer_ = context_.loop.RunAfter(kMostWait, [this] {
    timer_ = 0;
    PostAll();
  });
}

void Sender::PostAll() {
  with_turn_ = false;
  // A sleep with a timer due before the kernel's next tick sets the machine's timer and resets it.
  // In a virtual machine each costs microseconds.
  StopTimer();
  if (unposted_.empty()) return;
  Link& link = context_.link;
  for (size_t i = 0; i < unposted_.size() && link.usable(); ++i) {
    const auto [index, bytes] = unposted_[i];
    Slot& slot = slots_[index];
    const dat::Segment segment = buffers_.SendSegment(index, bytes);
    dat::Endpoint::SendOptions options;
    options.more = i + 1 < unposted_.size();
    slot.sending = true;
    absl::Status posted = link.endpoint().PostSend(index, std::span(&segment, 1), options);
    if (!posted.ok()) {
      link.Fail(std::move(posted));  // the end of the session resumes the exchange
      break;
    }
    context_.totals[slot.proc].sent_bytes += bytes;
    if (slot.call == nullptr) continue;  // its waiter gave up before it was posted
    slot.call->sent = true;
    if (slot.call->advertised != nullptr) slot.pin = context_.pool->Pin(*slot.call->advertised);
  }
  unposted_.clear();
  link.RequestPoll();
}

void Sender::StopTimer() {
  if (timer_ != 0) context_.loop.Cancel(std::exchange(timer_, 0));
}

}  // namespace dafs::client
