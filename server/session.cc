#include "server/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/back_control.h"
#include "server/batches.h"
#include "server/procedures.h"
#include "server/worker.h"
#include "wire/invalidation.h"
#include "wire/log.h"
#include "wire/status_macros.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;
using wire::Proc;

// How long the transport may take over an orderly end before it is cut off.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);
// Completions per turn, so that one busy session does not starve its neighbours.
constexpr size_t kBatch = 16;

PeerAddress PeerOf(const dat::Address& address) {
  sockaddr_storage storage = {};
  std::memcpy(&storage, address.get(), std::min<size_t>(address.size(), sizeof(storage)));
  return PeerAddress::FromSockaddr(storage);
}

// Whether the response to a request goes into the Response Cache.
bool IsRemembered(const wire::RequestVerdict& request) {
  const wire::ProcInfo* info = request.proc;
  if (info == nullptr) return false;
  return info->category == wire::Category::kFsStateModifying ||
         info->category == wire::Category::kLockStateModifying ||
         (info->category == wire::Category::kSimple &&
          (request.header.chain_flags & wire::kChfSave) != 0);
}

template <class T>
uint64_t CookieOf(T* object) {
  return reinterpret_cast<uintptr_t>(object);
}
template <class T>
T* FromCookie(uint64_t cookie) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(cookie));
}

}  // namespace

dat::EndpointOptions Session::EndpointOptions(const ServerOptions& options) {
  dat::EndpointOptions endpoint;
  endpoint.max_receives = options.max_requests + 2;
  endpoint.max_sends = options.max_requests + 2 + kRdmaCredits;
  return endpoint;
}

Session::Session(Worker& worker, const Shared& shared, dat::Domain& domain, const dat::Region& slab,
                 std::unique_ptr<dat::Endpoint> endpoint, std::string host)
    : worker_(worker),
      shared_(shared),
      domain_(domain),
      slab_(slab),
      host_(std::move(host)),
      peer_(PeerOf(endpoint->peer())),
      peer_name_(endpoint->peer().ToString()),
      endpoint_(std::move(endpoint)),
      invalidates_(wire::AsksForInvalidation(endpoint_->peer_private_data()) &&
                   endpoint_->can_invalidate()) {
  streams_.Grant(1);
  absl::Status status = send_buffers_.Resize(domain_, 1, wire::kFirstReceiveBytes);
  if (status.ok()) status = AddReceive(wire::kFirstReceiveBytes);
  if (status.ok()) status = endpoint_->Accept({});
  if (!status.ok()) {
    Abort(std::move(status));
    return;
  }
  connect_timer_ = loop().RunAfter(shared_.options->connect_timeout, [this] {
    connect_timer_ = 0;
    Abort(absl::DeadlineExceededError(absl::StrCat(
        "no authenticated session ", absl::FormatDuration(shared_.options->connect_timeout),
        " after the connection")));
  });
}

Session::~Session() {
  loop().Cancel(connect_timer_);
  loop().Cancel(end_timer_);
  endpoint_.reset();  // before the memory it may use
  // Gone from the table means gone from the budget: whoever sees no session sees no memory either.
  batches_.reset();
  credit_.reset();
  shared_.budget->Release(channel_bytes_);
  shared_.sessions->Leave(host_);
}

dat::Loop& Session::loop() { return worker_.loop(); }
DirectBuffers& Session::direct_buffers() { return worker_.direct_buffers(); }

bool Session::Poll() {
  dropped_.clear();
  if (disconnected_) return false;
  dat::Completion completions[kBatch];
  polling_ = true;
  const size_t count = endpoint_->Poll(completions);
  // Nothing is begun before all that came is known: members of a chain are answered together.
  running_ready_ = true;
  for (size_t i = 0; i < count; ++i) OnCompletion(completions[i]);
  running_ready_ = false;
  RunReady();
  recent_stats_.Clear();
  polling_ = false;
  endpoint_->Flush();
  return count > 0;
}

dat::WaitHandle Session::Arm() { return endpoint_->Arm(); }

void Session::Posted() {
  if (!polling_ && !disconnected_) loop().Touch(this);
}

void Session::OnCompletion(const dat::Completion& completion) {
  switch (completion.event) {
    case dat::Event::kConnected:
      return;
    case dat::Event::kReceive:
      if (!completion.status.ok()) return;  // flushed: kDisconnected follows
      return OnReceive(*FromCookie<Receive>(completion.cookie), completion.size_bytes);
    case dat::Event::kSend:
      return OnSent(std::unique_ptr<Outgoing>(FromCookie<Outgoing>(completion.cookie)));
    case dat::Event::kRdmaWrite:
    case dat::Event::kRdmaRead: {
      auto* work = FromCookie<RdmaWork>(completion.cookie);
      if (work == nullptr) return;  // unsignaled, flushed: its credit comes with the response
      work->failed |= !completion.status.ok();
      if (--work->pending == 0 && work->waiter) std::exchange(work->waiter, nullptr).resume();
      return (bound_to_ != nullptr ? bound_to_ : this)->ReturnRdmaCredits(1);
    }
    case dat::Event::kInvalidated:
      return;  // this side has no windows
    case dat::Event::kDisconnected:
      return OnDisconnected(completion.status);
  }
}

// ---- Requests in
// ---------------------------------------------------------------------------------

void Session::OnReceive(Receive& receive, size_t size_bytes) {
  if (ending_) return;
  if (client_ != nullptr && client_->superseded()) {
    return End(absl::AbortedError("a new instance of this client has connected"));
  }
  receive.message_ = receive.buffer->memory().first(size_bytes);
  if (back_control_ != nullptr && TakeDirectiveAnswer(receive)) return;
  receive.verdict_ = Check(receive.message_);
  if (receive.verdict_.close_channel) {
    return End(
        absl::DataLossError(absl::StrCat("message of ", size_bytes, " bytes with a bad header")));
  }
  order_ = receive.verdict_.order;
  if (authenticated_) client_->Renew(dat::Loop::Now());
  receive.holds_stream_ = CheckStream(receive);
  receive.chain_ = chains_.ChainOf(receive.header().chain_flags);
  Enqueue(receive);
  RunReady();
}

wire::RequestVerdict Session::Check(std::span<const std::byte> message) {
  auto implements = [](Proc proc) { return FindProcedure(proc) != nullptr; };
  auto knows_cred = [this](const wire::CredHandle& handle) {
    // An untrusted client has registered none (3.1.1.1.2).
    return trusted_ && client_->credentials().Find(handle) != nullptr;
  };
  wire::RequestContext context{.implements = implements, .knows_cred = knows_cred};
  context.order = order_;
  context.bound_channel = bound_to_ != nullptr;
  context.has_session = context.bound_channel || !negotiated_.session_id.is_zero();
  context.checksum_due = (context.bound_channel ? *bound_to_ : *this).negotiated_.use_checksums;
  context.authenticated = context.bound_channel || authenticated_;
  context.granted_nreq = streams_.limit();
  // Whether the chain is broken is known when its earlier members are done: StatusInChain.
  chain_state_.broken = false;
  return wire::CheckRequest(message, context, chain_state_);
}

// Step 8 of 9.2 beyond the bound: the stream must be free and the number the next. True if the call
// now occupies its stream.
bool Session::CheckStream(Call& call) {
  wire::RequestVerdict& verdict = call.verdict_;
  if (verdict.status == DafsStatus::kChksum) {
    streams_.Forget(verdict.header.stream_id);
    return false;
  }
  if (streams_.Begin(verdict.header.stream_id, verdict.header.seq_number)) return true;
  if (verdict.status == DafsStatus::kOk || verdict.status == DafsStatus::kNoCreds) {
    verdict.status = DafsStatus::kInval;
    verdict.header_only = true;
  }
  return false;
}

void Session::Enqueue(Call& call) {
  if (call.chain_ != nullptr) {
    if (call.chain_->running) return call.chain_->waiting.push_back(&call);
    call.chain_->running = true;
  }
  ready_.push_back(&call);
}

// Begins what is ready, in order, as far as there are buffers to answer from. A loop, so that a
// chain of any length needs no more stack than one call.
void Session::RunReady() {
  if (std::exchange(running_ready_, true)) return;
  while (!ready_.empty() && !ending_) {
    std::unique_ptr<Outgoing> outgoing = send_buffers_.Take();
    if (outgoing == nullptr) break;
    Call& call = *ready_.front();
    ready_.pop_front();
    call.outgoing_ = std::move(outgoing);
    Begin(call);
  }
  running_ready_ = false;
}

void Session::Begin(Call& call) {
  ++executing_;
  const DafsStatus status = StatusInChain(call.verdict_.status, call.chain_.get());
  if (status != DafsStatus::kOk) return call.FinishUnexecuted(status);
  if (call.header().procedure != Proc::kGetattrInline) recent_stats_.Clear();
  SetCaller(call);
  const Procedure& procedure = *FindProcedure(call.header().procedure);
  // Not for what may go on in the pool, nor for what begins outside a turn: nobody would clear it.
  const bool here = procedure.run != nullptr || call.header().procedure == Proc::kOpen;
  if (polling_ && here) call.caller_.recent = &recent_stats_;
  if (procedure.run != nullptr) {
    procedure.run(call);
  } else {
    dat::Start(procedure.start(call));
  }
}

void Session::SetCaller(Call& call) {
  call.caller_ = Caller();
  call.caller_.peer = peer_;
  call.operation_.reset();
  // A batch is no one operation; none of its writes is recorded (5.2.3).
  if (cache_ != nullptr && call.holds_stream_ && IsRemembered(call.verdict_) &&
      call.header().procedure != Proc::kBatchSubmit) {
    const MappedFile* synced =
        shared_.options->stable == Stable::kPower ? &cache_->file() : nullptr;
    call.operation_.emplace(cache_->slot(call.header().stream_id), synced, call.header().seq_number,
                            call.header().procedure);
    call.caller_.operation = &*call.operation_;
  }
  if (client_ == nullptr) return;
  call.caller_.client_id = client_->client_id();
  call.caller_.client_name = client_->client_id_string();
  call.caller_.holdings = client_->holdings();
  if (call.header().cred_handle.is_zero()) return;
  call.credential_ = client_->credentials().Find(call.header().cred_handle);
  if (call.credential_ == nullptr) return;  // released since the check: the anonymous user
  call.caller_.uid = call.credential_->uid;
  call.caller_.gid = call.credential_->gid;
  call.caller_.groups = call.credential_->groups;
}

// ---- Responses out
// -------------------------------------------------------------------------------

// target_nreq of the response to `call`; receives for a higher number are posted already here.
uint16_t Session::TargetNreq(const Call& call) {
  if (!credit_) return target_ = 1;
  if (receives_.size() != credit_->nreq()) return target_ = static_cast<uint16_t>(credit_->nreq());
  target_ = credit_->Target(call.header().desired_nreq);
  while (receives_.size() < target_) {
    absl::Status status = AddReceive(negotiated_.max_request_size);
    if (status.ok()) continue;
    LogWarning(
        absl::StrCat("session from ", peer_name_, ": no further credit: ", status.ToString()));
    target_ = credit_->Target(static_cast<uint16_t>(receives_.size()));
    break;
  }
  return target_;
}

void Session::Complete(Call& call, DafsStatus status, size_t response_bytes) {
  --executing_;
  const bool idle = executing_ == 0 && batches_ != nullptr;
  auto& receive = static_cast<Receive&>(call);
  std::unique_ptr<Outgoing> outgoing = std::move(call.outgoing_);
  std::shared_ptr<Chain> chain = std::move(call.chain_);
  call.credential_.reset();
  const std::optional<uint32_t> invalidate = std::exchange(call.invalidate_, std::nullopt);
  Remember(call, status, outgoing->buffer->memory().first(response_bytes));
  if (std::exchange(call.holds_stream_, false)) streams_.End(call.header().stream_id);
  // The numbers of the session begin behind the connect exchange, which may be repeated as it is.
  if (wire::IsConnect(call.header().procedure)) streams_.Forget(call.header().stream_id);
  if (ending_ || response_bytes == 0) {
    OnSent(std::move(outgoing));
    if (!ending_) End(absl::InternalError("a response could not be encoded"));
    return MaybeForget();
  }
  const bool disconnect = call.header().procedure == Proc::kDisconnect && status == DafsStatus::kOk;
  if (!PrepareReceives(receive)) return OnSent(std::move(outgoing));
  dat::Segment segment = outgoing->buffer->segment(response_bytes);
  Outgoing* cookie = outgoing.release();
  // Nobody waits for less than the whole chain, nor for the answer to a CLOSE.
  dat::Endpoint::SendOptions options;
  options.more =
      (chain != nullptr && !chain->waiting.empty()) || call.header().procedure == Proc::kClose;
  if (invalidates_) options.invalidate_context = invalidate;
  absl::Status posted = endpoint_->PostSend(CookieOf(cookie), {&segment, 1}, options);
  if (!posted.ok()) {
    OnSent(std::unique_ptr<Outgoing>(cookie));
    return End(std::move(posted));
  }
  Posted();
  KillPoint(KillStep::kReplied, call.header().procedure);
  if (disconnect) {
    // "After the OK response no further message is sent": the client closes, or we do.
    if (cache_ != nullptr) shared_.responses->Ended(*cache_, /*keep=*/false, dat::Loop::Now());
    ending_ = true;
    end_reason_ = absl::OkStatus();
    end_timer_ = loop().RunAfter(absl::Seconds(1), [this] {
      end_timer_ = 0;
      End(absl::OkStatus());
    });
    return;
  }
  if (chain != nullptr) {
    chain->running = false;
    if (status != DafsStatus::kOk) chain->broken = true;
    if (!chain->waiting.empty()) {
      chain->running = true;
      ready_.push_front(chain->waiting.front());  // before others, so that it is answered with it
      chain->waiting.pop_front();
    }
  }
  RunReady();
  if (idle && !ending_) batches_->Begin();
}

// Into the Response Cache, whether or not the response can still be sent: modifying requests, and
// simple ones with CHF_SAVE (5.2.1). Of the statuses that speak of a cache none is stored (R49).
void Session::Remember(const Call& call, DafsStatus status, std::span<const std::byte> response) {
  if (cache_ == nullptr || !call.holds_stream_ || call.cut_short_) return;
  const wire::RequestHeader& request = call.header();
  if (!IsRemembered(call.verdict_) || call.passes_) {
    return cache_->Passed(request.stream_id, request.seq_number);
  }
  switch (status) {
    case DafsStatus::kNoXidMatch:
    case DafsStatus::kUnknownSession:
    case DafsStatus::kBadSession:
      return;
    default:
      if (response.size() < wire::kHeaderSize) return;
      cache_->Answer(request, status, response.subspan(wire::kHeaderSize));
  }
  KillPoint(KillStep::kRecorded, request.procedure);
}

// Before a response goes out the receive of its request is posted again, or given up when the
// number of credits shrinks (3.2.6.3, 3.2.6.4.2). False if the session has ended over it.
bool Session::PrepareReceives(Receive& receive) {
  absl::Status status;
  if (credit_ && receive.buffer->memory().size() != negotiated_.max_request_size) {
    DropReceive(receive);  // the connect exchange's: the session's own are posted
  } else if (!credit_ || credit_->ResponseSent(target_)) {
    status = PostReceive(receive);
  } else {
    DropReceive(receive);
  }
  if (status.ok() && credit_) {
    streams_.Grant(credit_->nreq());
    status = send_buffers_.Resize(domain_, credit_->nreq(), negotiated_.max_response_size);
  }
  if (status.ok()) return true;
  End(std::move(status));
  return false;
}

absl::Status Session::AddReceive(size_t size_bytes) {
  auto receive = std::make_unique<Receive>(*this);
  ASSIGN_OR_RETURN(receive->buffer, MessageBuffer::Create(domain_, size_bytes));
  RETURN_IF_ERROR(PostReceive(*receive));
  receive->index = receives_.size();
  receives_.push_back(std::move(receive));
  return absl::OkStatus();
}

absl::Status Session::PostReceive(Receive& receive) {
  absl::Status status = endpoint_->PostReceive(
      CookieOf(&receive), receive.buffer->segment(receive.buffer->memory().size()));
  if (status.ok()) Posted();
  return status;
}

void Session::DropReceive(Receive& receive) {
  const size_t index = receive.index;
  std::swap(receives_[index], receives_.back());
  receives_[index]->index = index;
  // The coroutine that answered is still on the stack and may hold references into it.
  dropped_.push_back(std::move(receives_.back()));
  receives_.pop_back();
}

void Session::OnSent(std::unique_ptr<Outgoing> outgoing) {
  outgoing->lease.Release();
  const uint32_t credits = std::exchange(outgoing->rdma_credits, 0);
  send_buffers_.Return(std::move(outgoing));
  if (credits > 0) ReturnRdmaCredits(credits);
  RunReady();
  if (back_control_ != nullptr && bound_to_ != nullptr) bound_to_->batches().Report();
}

void Session::SendMessage(std::unique_ptr<Outgoing> outgoing, size_t size_bytes) {
  if (ending_ || size_bytes == 0) {
    send_buffers_.Return(std::move(outgoing));
    return End(absl::InternalError("a directive could not be encoded"));
  }
  dat::Segment segment = outgoing->buffer->segment(size_bytes);
  Outgoing* cookie = outgoing.release();
  absl::Status posted = endpoint_->PostSend(CookieOf(cookie), {&segment, 1}, {});
  if (posted.ok()) return Posted();
  send_buffers_.Return(std::unique_ptr<Outgoing>(cookie));
  End(std::move(posted));
}

// ---- RDMA credits
// --------------------------------------------------------------------------------

bool Session::CreditWaiter::await_ready() {
  if (!session_.credit_waiters_.empty() || session_.rdma_credits_ < count_) return false;
  session_.rdma_credits_ -= count_;
  return true;
}

void Session::CreditWaiter::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  session_.credit_waiters_.push_back(this);
}

void Session::ReturnRdmaCredits(uint32_t count) {
  rdma_credits_ += count;
  while (!credit_waiters_.empty() && credit_waiters_.front()->count_ <= rdma_credits_) {
    CreditWaiter* next = credit_waiters_.front();
    credit_waiters_.pop_front();
    rdma_credits_ -= next->count_;
    next->waiter_.resume();
  }
}

// ---- The end
// -------------------------------------------------------------------------------------

void Session::End(absl::Status why) {
  if (disconnected_ || end_timer_ != 0) return;
  if (!ending_) end_reason_ = std::move(why);
  ending_ = true;
  endpoint_->Disconnect();
  Posted();
  end_timer_ = loop().RunAfter(kEndTimeout, [this] {
    end_timer_ = 0;
    endpoint_->Abort(absl::DeadlineExceededError("the peer does not close"));
    Posted();
  });
}

void Session::Abort(absl::Status why) {
  if (disconnected_) return;
  if (!ending_) end_reason_ = why;
  ending_ = true;
  endpoint_->Abort(std::move(why));
  Posted();
}

void Session::OnDisconnected(const absl::Status& why) {
  disconnected_ = true;
  if (!ending_) end_reason_ = why;
  ending_ = true;
  ready_.clear();
  loop().Remove(this);
  loop().Cancel(connect_timer_);
  loop().Cancel(end_timer_);
  if (batches_ != nullptr) batches_->Drop();
  Unopen();
  Unbind();
  MaybeForget();
}

void Session::MaybeForget() {
  if (!disconnected_ || executing_ > 0 || read_channel_ != nullptr || back_channel_ != nullptr ||
      (batches_ != nullptr && batches_->running())) {
    return;
  }
  // Nothing changes the cache any more (5.2.5): now it may be asked for.
  if (cache_ != nullptr) shared_.responses->Ended(*cache_, authenticated_, dat::Loop::Now());
  worker_.Forget(this);
}

}  // namespace dafs::server
