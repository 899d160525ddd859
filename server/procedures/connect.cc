// The procedures by which a session begins, authenticates, gets channels, and ends; and NULL.
// Spec: 3.1.1, 6.2; WIRE 9.4 (CLIENT_CONNECT .. SERVER_AUTH), 11.3, 11.4, R58, R80, R81.
#include <string.h>

#include <span>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
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

// A password must not stay in a buffer for messages that the next request uses again.
void EraseIn(std::span<const std::byte> message, const std::string& password) {
  if (password.empty()) return;
  void* at = memmem(message.data(), message.size(), password.data(), password.size());
  if (at != nullptr) explicit_bzero(at, password.size());
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

// Creates the session of a client that must still authenticate. If that fails, there is no client.
DafsStatus OpenUnauthenticated(Session& session, const wire::ClientConnectArgs& args) {
  session.identity().Connect(args);
  const DafsStatus status = session.Open(args);
  if (status != DafsStatus::kOk) session.identity().Reset();
  return status;
}

// 6.2.1. Creates the session, not yet authenticated.
void ClientConnect(Call& call) {
  wire::ClientConnectArgs args;
  if (!call.Decode(args)) return;
  Session& session = call.session();
  const DafsStatus status = OpenUnauthenticated(session, args);
  call.Finish(status, args, session.terms().negotiated());
}

// Whether the client proves who it is by what it sends.
bool IsProven(AuthType method) { return method == AuthType::kGss || method == AuthType::kText; }

// Takes a token or the password of the client (6.2.2). kOk: the connection has its principal, and
// `*proof` is set. Erases the password, also in the message.
Task<DafsStatus> TakeProof(Call& call, const std::string& client_id_string, wire::AuthReq& request,
                           wire::AuthRes* answer, GssProof* proof) {
  Session& session = call.session();
  const AuthType method = request.auth_type;
  if (method == AuthType::kText) EraseIn(call.message(), request.auth_password);
  Task<GssRounds::Round> taking = method == AuthType::kText ? session.password().Take(request)
                                                            : session.gss().Take(request, answer);
  GssRounds::Round round = co_await taking;
  // Meanwhile the session may have authenticated in another way.
  const ClientIdentity& identity = session.identity();
  const bool is_other = identity.authenticated() && identity.auth_type() != method;
  if (round.status == DafsStatus::kOk && (is_other || !identity.MayBe(round.proof.principal))) {
    round.status = DafsStatus::kNotAuthorized;
    round.why =
        absl::StrCat(identity.authenticated() ? "the session belongs to another principal than "
                                              : "no export admits principal ",
                     absl::CHexEscape(*round.proof.principal));
  }
  if (!round.why.empty()) {
    const char* const how = method == AuthType::kText ? "Password" : "Kerberos";
    session.refusals().Say(client_id_string, how, absl::StrCat(how, ": ", round.why));
  }
  if (round.status != DafsStatus::kOk) co_return round.status;
  session.SetPrincipal(round.proof.principal);
  *proof = std::move(round.proof);
  co_return DafsStatus::kOk;
}

// 6.2.4. Authenticates first: if that fails, no session exists (R58).
Task<void> ClientConnectAuth(Call& call) {
  wire::ClientConnectAuthArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  ClientIdentity& identity = session.identity();
  const AuthType method = args.auth_req.auth_type;
  wire::AuthRes answer;
  answer.auth_type = method;
  GssProof proof;
  DafsStatus status = identity.MayUse(method);
  if (status == DafsStatus::kNotAuthorized) {
    session.refusals().SayNotAdmitted(args.client_id_string);
  }
  if (status == DafsStatus::kOk && IsProven(method)) {
    Task<DafsStatus> taking =
        TakeProof(call, args.client_id_string, args.auth_req, &answer, &proof);
    status = co_await taking;
  }
  if (status == DafsStatus::kNotAuthorized) status = DafsStatus::kNotAuthenticated;
  DafsStatus opened = DafsStatus::kOk;
  if (status == DafsStatus::kOk) {
    if (IsProven(method)) identity.SetProof(proof);
    status = OpenAuthenticated(session, ConnectPart(args), method);
  } else if (status == DafsStatus::kGssContinueInit) {
    opened = OpenUnauthenticated(session, ConnectPart(args));
    if (opened != DafsStatus::kOk) status = opened;
  }
  if (status != DafsStatus::kOk && status != DafsStatus::kGssContinueInit) {
    session.SetPrincipal(nullptr);
    call.FinishError(status);
    co_return;
  }
  wire::ClientConnectAuthRes res = ConnectAuthRes(session.terms().negotiated());
  res.auth_res = std::move(answer);
  res.trusted = identity.trusted();
  call.Finish(status, args, res);
}

// 6.2.2. On an authenticated session it renews the authentication, with the same method and
// principal.
Task<void> ClientAuth(Call& call) {
  wire::ClientAuthArgs args;
  if (!call.Decode(args)) co_return;
  Session& session = call.session();
  ClientIdentity& identity = session.identity();
  const AuthType method = args.auth_req.auth_type;
  wire::ClientAuthRes res;
  res.auth_res.auth_type = method;
  GssProof proof;
  DafsStatus status = identity.MayUse(method);
  if (status == DafsStatus::kNotAuthorized) {
    session.refusals().SayNotAdmitted(identity.client_id_string());
  }
  if (status == DafsStatus::kOk && identity.authenticated() && method != identity.auth_type()) {
    status = DafsStatus::kNotAuthorized;
  }
  if (status == DafsStatus::kOk && IsProven(method)) {
    Task<DafsStatus> taking =
        TakeProof(call, identity.client_id_string(), args.auth_req, &res.auth_res, &proof);
    status = co_await taking;
  }
  if (status == DafsStatus::kOk && !identity.authenticated()) {
    status = session.Confirm(method);
    if (status != DafsStatus::kOk) session.SetPrincipal(nullptr);
  }
  if (status == DafsStatus::kOk && IsProven(method)) identity.SetProof(proof);
  if (status == DafsStatus::kOk && !identity.authenticated()) session.SetAuthenticated(method);
  res.trusted = status == DafsStatus::kOk && identity.trusted();
  call.Finish(status, args, res);
}

// 6.2.5. Repeated on a bound channel, it renews the authentication; the sizes stay (3.2.6.4.1).
Task<void> ConnectBind(Call& call) {
  wire::ConnectBindArgs args;
  if (!call.Decode(args)) co_return;
  Session& channel = call.session();
  absl::StatusOr<wire::ByteOrder> order = channel.shared().sessions->Find(args.session_id);
  if (!order.ok()) co_return call.FinishError(DafsStatus::kUnknownSession);
  if (*order != call.order()) {
    channel.connection().End(
        absl::DataLossError("CONNECT_BIND in another byte order than its session's"));
    co_return call.FinishError(DafsStatus::kInval);  // never sent: the channel is closing
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
    co_return call.FinishError(DafsStatus::kIllegalState);
  }
  wire::AuthRes answer;
  answer.auth_type = args.auth_req.auth_type;
  DafsStatus status = DafsStatus::kOk;
  if (IsProven(args.auth_req.auth_type) &&
      owner->identity().auth_type() == args.auth_req.auth_type) {
    GssProof proof;
    const std::string client = owner->identity().client_id_string();
    Task<DafsStatus> taking = TakeProof(call, client, args.auth_req, &answer, &proof);
    status = co_await taking;
    owner = channel.worker().Find(args.session_id);  // it may have ended meanwhile
    if (owner == nullptr) co_return call.FinishError(DafsStatus::kUnknownSession);
  }
  if (status == DafsStatus::kOk) status = channel.channels().MayBind(args, *owner);
  if (status == DafsStatus::kGssContinueInit) {
    wire::ConnectBindRes res;
    res.auth_res = std::move(answer);
    co_return call.Finish(status, args, res);
  }
  if (status != DafsStatus::kOk) co_return call.FinishError(status);
  if (channel.channels().owner() == nullptr) channel.channels().Bind(args, *owner);
  wire::ConnectBindRes res = channel.channels().agreed();
  res.auth_res = std::move(answer);
  res.trusted = owner->identity().trusted();
  call.Finish(DafsStatus::kOk, args, res);
}

// 6.2.6. The session ends after the response (Requests::Complete).
DafsStatus Disconnect(Call&, const wire::DisconnectArgs&, wire::DisconnectRes*) {
  return DafsStatus::kOk;
}

// 6.2.7.
DafsStatus Secinfo(Call& call, const wire::SecinfoArgs&, wire::SecinfoRes* res) {
  for (AuthType method : {AuthType::kNone, AuthType::kDefault, AuthType::kText}) {
    if (call.session().identity().MayUse(method) == DafsStatus::kOk) {
      res->secinfo.emplace_back().auth_type = method;
    }
  }
  if (call.session().identity().MayUse(AuthType::kGss) == DafsStatus::kOk) {
    wire::SecInfo& gss = res->secinfo.emplace_back();
    gss.auth_type = AuthType::kGss;
    gss.oid = std::string(call.session().shared().options->acceptor->mechanism());
  }
  return DafsStatus::kOk;
}

// 6.2.3.
// With GSS the server has proven who it is when the client authenticated: the result is void.
DafsStatus ServerAuth(Call& call, const wire::ServerAuthArgs& args, wire::ServerAuthRes* res) {
  res->auth_type = args.auth_type;
  // The server proves itself by its certificate, and sends no password.
  if (args.auth_type == AuthType::kText &&
      call.session().identity().auth_type() == AuthType::kText) {
    return DafsStatus::kNotAuthorized;
  }
  const bool offered =
      args.auth_type == AuthType::kNone || args.auth_type == AuthType::kDefault ||
      (args.auth_type == AuthType::kGss && call.session().identity().auth_type() == AuthType::kGss);
  return offered ? DafsStatus::kOk : DafsStatus::kNotSupp;
}

// 6.5.1.
DafsStatus Null(Call&, const wire::NullArgs&, wire::NullRes*) { return DafsStatus::kOk; }

}  // namespace

constexpr Procedure kNullHandler = kAtOnce<Null>;
constexpr Procedure kClientConnectHandler = {.run = ClientConnect};
constexpr Procedure kClientConnectAuthHandler = {.start = ClientConnectAuth};
constexpr Procedure kClientAuthHandler = {.start = ClientAuth};
constexpr Procedure kConnectBindHandler = {.start = ConnectBind};
constexpr Procedure kDisconnectHandler = kAtOnce<Disconnect>;
constexpr Procedure kSecinfoHandler = kAtOnce<Secinfo>;
constexpr Procedure kServerAuthHandler = kAtOnce<ServerAuth>;

}  // namespace dafs::server
