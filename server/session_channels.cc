// The optional channels of a session. Spec: 3.1.2.3, 6.2.5; WIRE 9.4 (CONNECT_BIND), 11.3, R61.
//
// A channel begins as every connection does: a Session without a request. CONNECT_BIND makes it the
// channel of another, which lives on the same worker (Acceptor::WorkerFor). From then on its
// completions count for that session, and neither of them outlives the other.
#include <utility>

#include "server/session.h"
#include "server/worker.h"
#include "wire/log.h"

namespace dafs::server {

using wire::DafsStatus;

// Spec gap: 3.1.2.3.5: we do direct I/O on both channels, so what the client wishes counts, unless
// the administrator decided otherwise.
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
  bound_to_ = owner;
  owner->read_channel_ = this;
  loop().Cancel(std::exchange(connect_timer_, 0));
  wire::ConnectBindRes res;
  res.max_request_size = args.max_request_size;
  res.max_response_size = args.max_response_size;
  res.max_requests = args.max_requests;
  res.auth_res.auth_type = args.auth_req.auth_type;
  res.trusted = owner->trusted_;
  call.Finish(DafsStatus::kOk, args, res);
}

// Spec gap: a channel finds its session by the private data of its connection request (E.9), and a
// client may leave that out. Then the connection may belong to another thread than the session.
DafsStatus Session::ElsewhereStatus() const {
  LogWarning("connection from " + peer_name_ +
             ": CONNECT_BIND to a session of another worker; the client's connection requests do "
             "not carry the private data that would tell (E.9)");
  return DafsStatus::kIllegalState;
}

DafsStatus Session::MayBind(const wire::ConnectBindArgs& args, const Session& owner) const {
  const wire::AuthType method = args.auth_req.auth_type;
  if (!owner.authenticated_ || owner.ending_) return DafsStatus::kIllegalState;
  if (method != owner.auth_type_ || !(peer_ == owner.peer_) || MayUse(method) != DafsStatus::kOk) {
    return DafsStatus::kNotAuthorized;
  }
  if (bound_to_ != nullptr)
    return bound_to_ == &owner ? DafsStatus::kOk : DafsStatus::kIllegalState;
  const bool granted =
      args.channel_use == wire::ChannelUse::kRdmaRead && owner.negotiated_.use_rdma_read_channel;
  // On another device the session's contexts name nothing.
  const bool fits = &domain_ == &owner.domain_;
  return granted && fits && owner.read_channel_ == nullptr ? DafsStatus::kOk
                                                           : DafsStatus::kIllegalState;
}

// This connection has ended: so do those that belong to it.
void Session::Unbind() {
  if (read_channel_ != nullptr) {
    read_channel_->Abort(absl::UnavailableError("the session of this RDMA-read Channel has ended"));
  }
  if (bound_to_ == nullptr) return;
  Session& owner = *std::exchange(bound_to_, nullptr);
  owner.read_channel_ = nullptr;
  if (owner.disconnected_) return owner.MaybeForget();
  owner.Abort(absl::UnavailableError("the RDMA-read Channel of this session has ended"));
}

}  // namespace dafs::server
