// The optional channels of a session.
// Spec: 3.1.2.3, 6.2.5; WIRE 9.4 (CONNECT_BIND), 11.3, R61.
//
// A channel begins like every connection, as a Session without a request. CONNECT_BIND binds it to
// another session, on the same worker (Acceptor::WorkerFor). From then on its completions count for
// that session, and neither outlives the other.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log.h"
#include "server/session/back_control.h"
#include "server/session/session.h"
#include "server/session/worker.h"

namespace dafs::server {

using wire::DafsStatus;

// Spec gap: 3.1.2.3.5: the server can do direct I/O on both channels, so the client's request
// decides, unless the administrator's option does.
bool Session::GrantsReadChannel(bool asked) const {
  switch (shared_.options->rdma_read_channel) {
    case RdmaReadChannel::kNever:
      return false;
    case RdmaReadChannel::kOffered:
      return asked;
    case RdmaReadChannel::kRequired:
      return true;
  }
  return false;
}

Session* Session::read_channel() {
  return negotiated_.use_rdma_read_channel ? read_channel_ : this;
}

// 6.2.5. Repeated on a bound channel, it renews the authentication.
void Session::ConnectBind(Call& call) {
  wire::ConnectBindArgs args;
  if (!call.Decode(args)) return;
  absl::StatusOr<wire::ByteOrder> order = shared_.sessions->Find(args.session_id);
  if (!order.ok()) return call.FinishError(DafsStatus::kUnknownSession);
  if (*order != call.order()) {
    End(absl::DataLossError("CONNECT_BIND in another byte order than its session's"));
    return call.FinishError(DafsStatus::kInval);  // never sent: the channel is closing
  }
  Session* owner = worker_.Find(args.session_id);
  const DafsStatus status = owner == nullptr ? ElsewhereStatus() : MayBind(args, *owner);
  if (status != DafsStatus::kOk) return call.FinishError(status);
  if (bound_to_ == nullptr) BecomeChannel(args, *owner);
  wire::ConnectBindRes res;
  res.max_request_size = args.max_request_size;
  res.max_response_size = args.max_response_size;
  res.max_requests = args.max_requests;
  if (back_control_ != nullptr) {
    res.max_request_size = back_control_->request_bytes();
    res.max_response_size = std::min(args.max_response_size, wire::kFirstReceiveBytes);
    res.max_requests = back_control_->granted();
  }
  res.auth_res.auth_type = args.auth_req.auth_type;
  res.trusted = owner->trusted_;
  call.Finish(DafsStatus::kOk, args, res);
}

void Session::BecomeChannel(const wire::ConnectBindArgs& args, Session& owner) {
  bound_to_ = &owner;
  bound_as_ = args.channel_use;
  loop().Cancel(std::exchange(connect_timer_, 0));
  if (bound_as_ == wire::ChannelUse::kRdmaRead) {
    owner.read_channel_ = this;
    return;
  }
  owner.back_channel_ = this;
  const uint32_t bytes = std::min(args.max_request_size, BackControl::kMostRequestBytes) / 8 * 8;
  const uint32_t granted = OpenBackControl(args, bytes);
  back_control_ = std::make_unique<BackControl>(*this, granted, bytes, *order_, owner.checksums());
}

// Allocates the memory for directives of `request_bytes`: a send buffer and a receive for each,
// beside the receive for a repeated CONNECT_BIND. Returns the number of directives granted.
uint32_t Session::OpenBackControl(const wire::ConnectBindArgs& args, uint32_t request_bytes) {
  const uint32_t buffer = std::max(request_bytes, wire::kFirstReceiveBytes);
  const size_t each = size_t{buffer} + wire::kFirstReceiveBytes;
  uint32_t granted =
      std::min({args.max_requests, BackControl::kMostRequests, shared_.options->max_requests});
  while (granted > 1 && !shared_.budget->TryReserve(granted * each)) --granted;
  if (granted == 1) shared_.budget->Reserve(each);  // the first credit, as for every session
  channel_bytes_ = granted * each;
  absl::Status status = send_buffers_.Resize(domain_, granted + 1, buffer);
  for (uint32_t i = 0; i < granted && status.ok(); ++i) {
    status = AddReceive(wire::kFirstReceiveBytes);
  }
  if (!status.ok()) End(std::move(status));
  return granted;
}

// Returns true if `receive` holds a reply to a directive; the reply has then been processed.
bool Session::TakeDirectiveAnswer(Receive& receive) {
  if (!back_control_->IsResponse(receive.message_)) return false;
  absl::Status status = back_control_->OnResponse(receive.message_);
  if (status.ok()) status = PostReceive(receive);
  if (!status.ok()) {
    End(std::move(status));
  } else if (bound_to_ != nullptr && bound_to_->pending_work_ != nullptr) {
    bound_to_->pending_work_->Report();
  }
  return true;
}

// Spec gap: a channel finds its session by the private data of its connection request (E.9), and a
// client may omit that. Then the connection may belong to another thread than the session.
DafsStatus Session::ElsewhereStatus() const {
  LogWarning("connection from " + peer_name_ +
             ": CONNECT_BIND to a session of another worker; the client's connection requests do "
             "not carry the private data that identifies the session (E.9)");
  return DafsStatus::kIllegalState;
}

DafsStatus Session::MayBind(const wire::ConnectBindArgs& args, const Session& owner) const {
  const wire::AuthType method = args.auth_req.auth_type;
  if (!owner.authenticated_ || owner.ending_) return DafsStatus::kIllegalState;
  if (method != owner.auth_type_ || !(peer_ == owner.peer_) || MayUse(method) != DafsStatus::kOk) {
    return DafsStatus::kNotAuthorized;
  }
  if (bound_to_ != nullptr) {
    return bound_to_ == &owner && bound_as_ == args.channel_use ? DafsStatus::kOk
                                                                : DafsStatus::kIllegalState;
  }
  const bool reads = args.channel_use == wire::ChannelUse::kRdmaRead;
  const bool granted =
      reads ? owner.negotiated_.use_rdma_read_channel : owner.negotiated_.use_back_control_channel;
  // Contexts of the session are not valid on another device.
  const bool fits = &domain_ == &owner.domain_;
  const Session* bound = reads ? owner.read_channel_ : owner.back_channel_;
  if (!granted || !fits || bound != nullptr) return DafsStatus::kIllegalState;
  // Spec gap: no minimum is given for what a client offers for directives. Here it is the sizes of
  // this server's directives, and one credit.
  const bool of_use = args.max_request_size >= BackControl::kLeastRequestBytes &&
                      args.max_response_size >= BackControl::kLeastResponseBytes &&
                      args.max_requests > 0;
  return reads || of_use ? DafsStatus::kOk : DafsStatus::kInval;
}

// This connection has ended: ends the connections bound to it, or the session it is bound to.
void Session::Unbind() {
  for (Session* channel : {read_channel_, back_channel_}) {
    if (channel == nullptr) continue;
    channel->Abort(absl::UnavailableError(
        absl::StrCat("the session of this ", channel->ChannelName(), " has ended")));
  }
  if (bound_to_ == nullptr) return;
  Session& owner = *std::exchange(bound_to_, nullptr);
  const bool reads = bound_as_ == wire::ChannelUse::kRdmaRead;
  (reads ? owner.read_channel_ : owner.back_channel_) = nullptr;
  if (owner.disconnected_) return owner.MaybeForget();
  owner.Abort(
      absl::UnavailableError(absl::StrCat("the ", ChannelName(), " of this session has ended")));
}

const char* Session::ChannelName() const {
  return bound_as_ == wire::ChannelUse::kRdmaRead ? "RDMA-read Channel" : "Back-control Channel";
}

}  // namespace dafs::server
