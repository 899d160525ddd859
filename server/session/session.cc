// The life of a session: events of its transport, its RDMA credits, its end.
#include "server/session/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log.h"
#include "runtime/status_macros.h"
#include "server/session/back_control.h"
#include "server/session/worker.h"
#include "wire/dat/reserved_ports.h"
#include "wire/protocol/invalidation.h"

namespace dafs::server {
namespace {

// The time limit for an orderly end of the transport; after it the connection is aborted.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);
// Completions per Poll, so that one busy session does not starve the others.
constexpr size_t kBatch = 16;

}  // namespace

Peer PeerOf(const dat::Address& address) {
  sockaddr_storage storage = {};
  std::memcpy(&storage, address.get(), std::min<size_t>(address.size(), sizeof(storage)));
  return {.address = PeerAddress::FromSockaddr(storage),
          .reserved_port = dat::HasReservedPort(address)};
}

dat::EndpointOptions Session::EndpointOptions(const ServerOptions& options) {
  dat::EndpointOptions endpoint;
  endpoint.max_receives = options.max_requests + 2;
  endpoint.max_sends = options.max_requests + 2 + kRdmaCredits;
  return endpoint;
}

Session::Session(Worker& worker, const Shared& shared, dat::Domain& domain, const dat::Region& slab,
                 std::unique_ptr<dat::Endpoint> endpoint, SessionTable::Place place)
    : worker_(worker),
      shared_(shared),
      domain_(domain),
      slab_(slab),
      place_(std::move(place)),
      peer_(PeerOf(endpoint->peer())),
      peer_name_(endpoint->peer().ToString()),
      endpoint_(std::move(endpoint)),
      invalidates_(wire::AsksForInvalidation(endpoint_->peer_private_data()) &&
                   endpoint_->can_invalidate()) {
  streams_.Grant(1);
  absl::Status status = send_buffers_.Resize(domain_, 1, wire::kFirstReceiveBytes);
  if (status.ok()) status = AddReceive(wire::kFirstReceiveBytes);
  if (status.ok()) receives_.front()->of_connect = true;
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
  loop().Cancel(move_timer_);
  endpoint_.reset();  // before the memory that it may use
  // Releases memory before Leave: an observer that sees no session also sees no memory in use.
  pending_work_.reset();
  credit_.reset();
  shared_.budget->Release(channel_bytes_);
  shared_.sessions->Leave(place_);
}

dat::Loop& Session::loop() { return worker_.loop(); }
DirectAcquirer Session::AcquireDirect(size_t size_bytes, bool may_hang) {
  return worker_.direct_buffers().Acquire(may_hang ? hanging_share_ : direct_share_, size_bytes);
}

bool Session::Poll() {
  dropped_.clear();
  if (disconnected_) return false;
  dat::Completion completions[kBatch];
  polling_ = true;
  const size_t count = endpoint_->Poll(completions);
  // Begins requests only after all completions are processed, so that members of a chain are
  // answered together.
  running_ready_ = true;
  for (size_t i = 0; i < count; ++i) OnCompletion(completions[i]);
  running_ready_ = false;
  RunReady();
  recent_stats_.Clear();
  polling_ = false;
  FlushAnswers();
  return count > 0;
}

dat::WaitHandle Session::Arm() { return endpoint_->Arm(); }

void Session::Posted() {
  if (!polling_ && !disconnected_) loop().Touch(this);
}

void Session::EndIfSuperseded() {
  if (client_ == nullptr || !client_->superseded()) return;
  Abort(absl::AbortedError("a new instance of this client has connected"));
}

void Session::OnCompletion(const dat::Completion& completion) {
  switch (completion.event) {
    case dat::Event::kConnected:
      return;
    case dat::Event::kReceive:
      if (!completion.status.ok()) return;  // flushed: kDisconnected follows
      return OnReceive(*FromCookie<Receive>(completion.cookie), completion.size_bytes);
    case dat::Event::kSend: {
      std::unique_ptr<Outgoing> outgoing(FromCookie<Outgoing>(completion.cookie));
      if (outgoing->rdma_credits > 0) Moved(outgoing->rdma_credits);
      return OnSent(std::move(outgoing));
    }
    case dat::Event::kRdmaWrite:
    case dat::Event::kRdmaRead: {
      auto* work = FromCookie<RdmaWork>(completion.cookie);
      if (work == nullptr) return;  // unsignaled, flushed: its credit returns with the response
      (bound_to_ != nullptr ? bound_to_ : this)->Moved(1);
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

void Session::Moving(uint32_t count) {
  if (moving_ == 0) ++moves_;  // restarts the time limit
  moving_ += count;
  if (move_timer_ == 0) WatchMoves();
}

void Session::Moved(uint32_t count) {
  moving_ -= count;
  ++moves_;
}

// One timer at a time. It is set again only if operations are in progress when it expires.
void Session::WatchMoves() {
  if (disconnected_) return;
  watched_moves_ = moves_;
  move_timer_ = loop().RunAfter(shared_.options->transfer_timeout, [this] {
    move_timer_ = 0;
    if (moving_ == 0) return;
    if (moves_ != watched_moves_) return WatchMoves();
    const std::string why = absl::StrCat("no RDMA operation completed in ",
                                         absl::FormatDuration(shared_.options->transfer_timeout),
                                         ", of ", moving_, " outstanding");
    LogWarning(absl::StrCat("session from ", peer_name_, ": ended: ", why));
    Abort(absl::DeadlineExceededError(why));
  });
}

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
  if (!ending_) {
    end_reason_ = why;
    // DISCONNECT would have set ending_ with its response.
    if (why.ok() && authenticated_) {
      end_reason_ = absl::UnavailableError("connection closed without disconnect");
    }
  }
  ending_ = true;
  ready_.clear();
  loop().Remove(this);
  loop().Cancel(connect_timer_);
  loop().Cancel(end_timer_);
  loop().Cancel(std::exchange(move_timer_, 0));
  if (pending_work_ != nullptr) pending_work_->Drop();
  Unopen();
  Unbind();
  // Calls that this resumes and answers are not parked again.
  for (std::unique_ptr<Outgoing>& outgoing : std::exchange(parked_, {})) {
    OnSent(std::move(outgoing));
  }
  MaybeForget();
}

void Session::MaybeForget() {
  if (!disconnected_ || executing_ > 0 || read_channel_ != nullptr || back_channel_ != nullptr ||
      (pending_work_ != nullptr && pending_work_->running())) {
    return;
  }
  // Only once: nested ends of calls all come here. By the time of a second Forget, another session
  // may have this address.
  if (std::exchange(forgotten_, true)) return;
  // Nothing changes the cache any more (5.2.5): clients may query it now.
  if (cache_ != nullptr) shared_.responses->Ended(*cache_, authenticated_, dat::Loop::Now());
  // The session opens no more files, so its client may be forgotten.
  if (authenticated_ && client_ != nullptr && place_.admitted) {
    shared_.clients->SessionClosed(std::exchange(client_, nullptr));
  }
  worker_.Forget(this);
}

}  // namespace dafs::server
