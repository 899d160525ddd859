#include "client/session/session.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/session/slots.h"
#include "runtime/check.h"
#include "runtime/log.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

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
  return static_cast<uint16_t>(flags);
}

}  // namespace

Session::Session(Client& client, dat::Loop& loop, BufferPool* pool, CallTotals& totals)
    : client_(client), loop_(loop), pool_(pool), totals_(totals) {}

Session::~Session() {
  Kill(absl::CancelledError("session closed"));
  if (pool_ != nullptr && domain_ != nullptr) pool_->Deregister();
  // Each is destroyed before what it uses.
  endpoint_.reset();
  region_.reset();
  domain_.reset();
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

dat::Task<absl::Status> Session::Run(wire::CredHandle cred, std::span<CallBase* const> chain,
                                     absl::Time deadline) {
  DAFS_CHECK(!chain.empty() && chain.size() <= kMaxChain, "a chain of 1 to 8 calls");
  for (CallBase* call : chain) call->Reset();
  return RunTogether(cred, chain, deadline);
}

dat::Task<absl::Status> Session::RunTogether(wire::CredHandle cred,
                                             std::span<CallBase* const> chain,
                                             absl::Time deadline) {
  SlotWaiter waiter{*this, chain.size(), deadline};
  absl::Status taken = co_await waiter;
  if (absl::IsResourceExhausted(taken)) {
    dat::Task<absl::Status> task = RunOneByOne(cred, chain, deadline);
    absl::Status status = co_await task;
    co_return status;
  }
  if (!taken.ok()) co_return taken;

  Exchange exchange;
  exchange.chain = chain;
  exchange.deadline = deadline;
  absl::Status posted = Post(cred, exchange, std::span(waiter.slots).first(chain.size()));
  if (!posted.ok()) co_return posted;
  absl::Status status = co_await exchange;
  co_return status;
}

// Spec: 4.3.3: with fewer credits than members, sends the members one after the other as single
// requests. Passes filehandle and state id from one to the next, as the server does within a chain.
dat::Task<absl::Status> Session::RunOneByOne(wire::CredHandle cred,
                                             std::span<CallBase* const> chain,
                                             absl::Time deadline) {
  Current current;
  bool broken = false;
  for (CallBase* call : chain) {
    if (broken) {
      call->answered = true;
      call->status = wire::DafsStatus::kChainBroken;
      continue;
    }
    call->TakeOver(current);
    // A state id that was passed on is the client's own name: replace it by the server's.
    NameOpen(*call, client_.opens(), negotiated_.client_id);
    CallBase* const single[] = {call};
    dat::Task<absl::Status> task = RunTogether(cred, single, deadline);
    absl::Status status = co_await task;
    if (!status.ok()) co_return status;
    broken = call->status != wire::DafsStatus::kOk;
    if (!broken) call->PassOn(current);
  }
  co_return absl::OkStatus();
}

absl::StatusOr<size_t> Session::EncodeMember(wire::CredHandle cred,
                                             std::span<CallBase* const> chain, size_t index,
                                             Slot& slot) {
  auto stream = static_cast<uint16_t>(&slot - slots_.data());
  wire::RequestHeader header;
  header.desired_nreq = starved_ ? static_cast<uint16_t>(slots_.size()) : uint16_t{0};
  header.chain_flags = ChainFlags(chain, index);
  header.stream_id = stream;
  header.seq_number = static_cast<uint16_t>(slot.seq_number + 1);
  header.analyzer =
      wire::OpaqueFromUint64<wire::Analyzer>(uint64_t{slot.generation + 1} << 32 | stream);
  header.cred_handle = cred;
  std::span<std::byte> out = memory_.subspan(size_t{stream} * send_bytes_, request_bytes_);
  return chain[index]->Encode(header, negotiated_.order, out, checksums_due_);
}

// Encodes all members before it posts the first, so that a chain is sent as a whole or not at all,
// without another request in between.
absl::Status Session::Post(wire::CredHandle cred, Exchange& exchange,
                           std::span<const uint16_t> slots) {
  std::array<uint32_t, kMaxChain> bytes;
  for (size_t i = 0; i < slots.size(); ++i) {
    absl::StatusOr<size_t> size = EncodeMember(cred, exchange.chain, i, slots_[slots[i]]);
    if (windows_) pool_->exposure().Take(slots_[slots[i]].windows);
    if (!size.ok()) {
      for (uint16_t index : slots) {
        DropWindows(slots_[index]);
        FreeSlot(slots_[index]);
      }
      // A window could not be bound: end the session, so that a retry uses another one.
      if (windows_ && absl::IsUnavailable(size.status())) Fail(size.status());
      return size.status();
    }
    bytes[i] = static_cast<uint32_t>(*size);
  }
  starved_ = false;
  exchange.since = dat::Loop::Now();
  exchange.unanswered = slots.size();
  AddExchange(exchange);
  const bool can_wait = std::all_of(exchange.chain.begin(), exchange.chain.end(),
                                    [](const CallBase* call) { return call->can_wait; });
  const bool with_turn = std::all_of(exchange.chain.begin(), exchange.chain.end(),
                                     [](const CallBase* call) { return call->leaves_with_turn; });
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots_[slots[i]];
    CallBase* call = exchange.chain[i];
    slot.exchange = &exchange;
    slot.call = call;
    slot.hold = MemoryHold(call->memory_use);
    slot.proc = call->proc();
    slot.posted = exchange.since;
    slot.expects_answer = true;
    ++slot.seq_number;
    ++slot.generation;
    call->xid = XidOf(exchange.chain, i, slots[i]);
    unposted_.push_back({slots[i], bytes[i]});
  }
  StartTicking();
  if (can_wait) {
    PostSoon();
  } else if (with_turn) {
    if (!std::exchange(post_with_turn_, true)) loop_.Touch(this);
  } else {
    PostAll();
  }
  return absl::OkStatus();
}

// Spec: 4.3.1, 5.2.1: the server caches responses to requests that modify state, and to those with
// DAFS_CHF_SAVE.
Xid Session::XidOf(std::span<CallBase* const> chain, size_t index, uint16_t slot) const {
  Xid xid;
  xid.session_id = negotiated_.session_id;
  xid.client_id = negotiated_.client_id;
  xid.auth = negotiated_.auth;
  xid.stream_id = slot;
  xid.seq_number = slots_[slot].seq_number;
  // A batch that was cut off is issued again, whether it was executed or not (5.2.3).
  xid.cached = negotiated_.response_cache && chain[index]->proc() != wire::Proc::kBatchSubmit &&
               (wire::ModifiesState(chain[index]->info().category) ||
                (ChainFlags(chain, index) & wire::kChfSave) != 0);
  return xid;
}

// The unposted requests are sent with the next request, at the latest after kMostWait.
void Session::PostSoon() {
  if (post_timer_ != 0) return;
  post_timer_ = loop_.RunAfter(kMostWait, [this] {
    post_timer_ = 0;
    PostAll();
  });
}

// Posts all unposted requests, in one send if the transport can.
void Session::PostAll() {
  post_with_turn_ = false;
  // A sleep with a timer due before the kernel's next tick sets the machine's timer and resets it.
  // In a virtual machine each costs microseconds.
  if (post_timer_ != 0) loop_.Cancel(std::exchange(post_timer_, 0));
  if (unposted_.empty()) return;
  for (size_t i = 0; i < unposted_.size() && state_ < State::kDying; ++i) {
    const auto [index, bytes] = unposted_[i];
    Slot& slot = slots_[index];
    dat::Segment segment{memory_.data() + size_t{index} * send_bytes_, bytes, region_.get()};
    dat::Endpoint::SendOptions options;
    options.more = i + 1 < unposted_.size();
    slot.sending = true;
    absl::Status posted = endpoint_->PostSend(index, std::span(&segment, 1), options);
    if (!posted.ok()) {
      Fail(std::move(posted));  // Die resumes the exchange
      break;
    }
    if (slot.call == nullptr) continue;  // its waiter gave up before it was posted
    slot.call->sent = true;
    if (slot.call->advertised != nullptr) slot.pin = pool_->Pin(*slot.call->advertised);
  }
  unposted_.clear();
  loop_.Touch(this);
}

void Session::AddExchange(Exchange& exchange) {
  exchange.prev = last_exchange_;
  (last_exchange_ != nullptr ? last_exchange_->next : first_exchange_) = &exchange;
  last_exchange_ = &exchange;
}

// Resumes the waiter. `exchange` may be destroyed afterwards.
void Session::Finish(Exchange& exchange, absl::Status status) {
  (exchange.prev != nullptr ? exchange.prev->next : first_exchange_) = exchange.next;
  (exchange.next != nullptr ? exchange.next->prev : last_exchange_) = exchange.prev;
  exchange.status = std::move(status);
  exchange.done = true;
  if (exchange.waiter) exchange.waiter.resume();
}

void Session::Fill(SessionReport& report) const {
  const absl::Time now = dat::Loop::Now();
  report.up = alive();
  if (endpoint_ != nullptr) report.transport = endpoint_->description();
  if (read_channel_bound_) report.transport += ", RDMA-read Channel";
  if (back_control_bound_) report.transport += ", Back-control Channel";
  report.memory_by_windows = windows_;
  report.windows_bound = windows_ ? pool_->exposure().count() : 0;
  report.windows_ended = windows_ended_;
  if (pool_ != nullptr) report.memory = windows_ ? "memory windows" : no_windows_;
  report.peer = peer_.ToString();
  report.age = now - since_;
  report.session_id = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(negotiated_.session_id.bytes.data()), 8));
  report.trusted = negotiated_.trusted;
  report.checksums = negotiated_.checksums;
  report.big_endian = negotiated_.order == wire::ByteOrder::kBig;
  report.max_request_size = negotiated_.max_request_size;
  report.max_response_size = negotiated_.max_response_size;
  report.max_requests = negotiated_.max_requests;
  report.max_credentials = negotiated_.max_credentials;
  report.nreq = nreq_;
  report.target_nreq = target_nreq_;
  report.slots = static_cast<uint32_t>(slots_.size());
  report.slots_taken = in_flight_;
  for (SlotWaiter* w = first_waiter_; w != nullptr; w = w->next) ++report.waiting_for_slots;
  for (Exchange* e = first_exchange_; e != nullptr; e = e->next) {
    report.outstanding.push_back({NamesOf(e->chain), now - e->since});
  }
}

}  // namespace dafs::client
