// The procedures by which a session begins, authenticates, gets channels, and ends; and NULL.
// Spec: 3.1.1, 6.2; WIRE 9.4 (CLIENT_CONNECT .. SERVER_AUTH), 11.3, 11.4, R58, R80, R81.
#include "absl/strings/str_cat.h"
#include "runtime/log.h"
#include "server/procedures/handler.h"
#include "server/session/worker.h"

namespace dafs::server {
namespace {

using wire::AuthType;
using wire::DafsStatus;

// Copies what the arguments of CLIENT_CONNECT and CLIENT_CONNECT_AUTH have in common, and likewise
// their results.
void CopyTerms(const auto& from, auto& to) {
  to.use_checksums = from.use_checksums;
  to.use_response_cache = from.use_response_cache;
  to.max_credentials = from.max_credentials;
  to.max_request_size = from.max_request_size;
  to.max_response_size = from.max_response_size;
  to.max_requests = from.max_requests;
  to.inline_write_header_size = from.inline_write_header_size;
  to.use_back_control_channel = from.use_back_control_channel;
  to.use_rdma_read_channel = from.use_rdma_read_channel;
}

wire::ClientConnectArgs ConnectPart(const wire::ClientConnectAuthArgs& args) {
  wire::ClientConnectArgs part;
  CopyTerms(args, part);
  part.fence_id_string = args.fence_id_string;
  part.client_id_string = args.client_id_string;
  part.client_verifier = args.client_verifier;
  return part;
}

wire::ClientConnectAuthRes ConnectAuthRes(const wire::ClientConnectRes& part) {
  wire::ClientConnectAuthRes res;
  CopyTerms(part, res);
  res.session_id = part.session_id;
  res.client_id = part.client_id;
  return res;
}

// Creates the session of a client that may use `method`. If that fails, there is no client.
DafsStatus OpenAuthenticated(Session& session, const wire::ClientConnectArgs& args,
                             AuthType method) {
  ClientIdentity& identity = session.identity();
  identity.Connect(args);
  DafsStatus status = session.Confirm(method);
  if (status == DafsStatus::kOk) {
    status = session.Open(args);
    if (status != DafsStatus::kOk) identity.Unconfirm();
  }
  if (status != DafsStatus::kOk) {
    identity.Reset();
    return status;
  }
  session.SetAuthenticated(method);
  return DafsStatus::kOk;
}

// 6.2.1. Creates the session, not yet authenticated.
void ClientConnect(Call& call) {
  wire::ClientConnectArgs args;
  if (!call.Decode(args)) return;
  Session& session = call.session();
  session.identity().Connect(args);
  const DafsStatus status = session.Open(args);
  if (status != DafsStatus::kOk) session.identity().Reset();
  call.Finish(status, args, session.terms().negotiated());
}

// 6.2.4. Authenticates first: if that fails, no session exists (R58).
void ClientConnectAuth(Call& call) {
  wire::ClientConnectAuthArgs args;
  if (!call.Decode(args)) return;
  Session& session = call.session();
  const AuthType method = args.auth_req.auth_type;
  DafsStatus status = session.identity().MayUse(method);
  if (status == DafsStatus::kNotAuthorized) status = DafsStatus::kNotAuthenticated;
  if (status != DafsStatus::kOk && !session.identity().admitted()) {
    session.refusals().SayNotAdmitted(args.client_id_string);
  }
  if (status == DafsStatus::kOk) status = OpenAuthenticated(session, ConnectPart(args), method);
  if (status != DafsStatus::kOk) return call.FinishError(status);
  wire::ClientConnectAuthRes res = ConnectAuthRes(session.terms().negotiated());
  res.auth_res.auth_type = method;
  res.trusted = session.identity().trusted();
  call.Finish(DafsStatus::kOk, args, res);
}

// 6.2.2. On an authenticated session it renews the authentication, with the same method.
void ClientAuth(Call& call) {
  wire::ClientAuthArgs args;
  if (!call.Decode(args)) return;
  Session& session = call.session();
  const ClientIdentity& identity = session.identity();
  const AuthType method = args.auth_req.auth_type;
  DafsStatus status = identity.MayUse(method);
  if (status == DafsStatus::kNotAuthorized) {
    session.refusals().SayNotAdmitted(identity.client_id_string());
  }
  if (status == DafsStatus::kOk && identity.authenticated()) {
    if (method != identity.auth_type()) status = DafsStatus::kNotAuthorized;
  } else if (status == DafsStatus::kOk) {
    status = session.Confirm(method);
    if (status == DafsStatus::kOk) session.SetAuthenticated(method);
  }
  wire::ClientAuthRes res;
  res.auth_res.auth_type = method;
  res.trusted = identity.trusted();
  call.Finish(status, args, res);
}

// 6.2.5. Repeated on a bound channel, it renews the authentication; the sizes stay (3.2.6.4.1).
void ConnectBind(Call& call) {
  wire::ConnectBindArgs args;
  if (!call.Decode(args)) return;
  Session& channel = call.session();
  absl::StatusOr<wire::ByteOrder> order = channel.shared().sessions->Find(args.session_id);
  if (!order.ok()) return call.FinishError(DafsStatus::kUnknownSession);
  if (*order != call.order()) {
    channel.connection().End(
        absl::DataLossError("CONNECT_BIND in another byte order than its session's"));
    return call.FinishError(DafsStatus::kInval);  // never sent: the channel is closing
  }
  Session* owner = channel.worker().Find(args.session_id);
  if (owner == nullptr) {
    // Spec gap: a channel finds its session by the private data of its connection request (E.9),
    // and a client may omit that. Then the connection may belong to another thread than the
    // session.
    LogWarning(absl::StrCat(
        "connection from ", channel.connection().peer_name(),
        ": CONNECT_BIND to a session of another worker; the client's connection requests do not "
        "carry the private data that identifies the session (E.9)"));
    return call.FinishError(DafsStatus::kIllegalState);
  }
  const DafsStatus status = channel.channels().MayBind(args, *owner);
  if (status != DafsStatus::kOk) return call.FinishError(status);
  if (channel.channels().owner() == nullptr) channel.channels().Bind(args, *owner);
  wire::ConnectBindRes res = channel.channels().agreed();
  res.auth_res.auth_type = args.auth_req.auth_type;
  res.trusted = owner->identity().trusted();
  call.Finish(DafsStatus::kOk, args, res);
}

// 6.2.6. The session ends after the response (Requests::Complete).
DafsStatus Disconnect(Call&, const wire::DisconnectArgs&, wire::DisconnectRes*) {
  return DafsStatus::kOk;
}

// 6.2.7.
DafsStatus Secinfo(Call& call, const wire::SecinfoArgs&, wire::SecinfoRes* res) {
  for (AuthType method : {AuthType::kNone, AuthType::kDefault}) {
    if (call.session().identity().MayUse(method) == DafsStatus::kOk) {
      res->secinfo.emplace_back().auth_type = method;
    }
  }
  return DafsStatus::kOk;
}

// 6.2.3.
DafsStatus ServerAuth(Call&, const wire::ServerAuthArgs& args, wire::ServerAuthRes* res) {
  res->auth_type = args.auth_type;
  const bool offered = args.auth_type == AuthType::kNone || args.auth_type == AuthType::kDefault;
  return offered ? DafsStatus::kOk : DafsStatus::kNotSupp;
}

// 6.5.1.
DafsStatus Null(Call&, const wire::NullArgs&, wire::NullRes*) { return DafsStatus::kOk; }

}  // namespace

constexpr Procedure kNullHandler = kAtOnce<Null>;
constexpr Procedure kClientConnectHandler = {.run = ClientConnect};
constexpr Procedure kClientConnectAuthHandler = {.run = ClientConnectAuth};
constexpr Procedure kClientAuthHandler = {.run = ClientAuth};
constexpr Procedure kConnectBindHandler = {.run = ConnectBind};
constexpr Procedure kDisconnectHandler = kAtOnce<Disconnect>;
constexpr Procedure kSecinfoHandler = kAtOnce<Secinfo>;
constexpr Procedure kServerAuthHandler = kAtOnce<ServerAuth>;

}  // namespace dafs::server
