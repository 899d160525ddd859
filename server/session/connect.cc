// How a session begins, authenticates, and ends.
// Spec: 3.1.1, 6.2; WIRE 9.4 (CLIENT_CONNECT .. SERVER_AUTH), 11.3, 11.4, R58, R80, R81.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log.h"
#include "server/clients/client_name.h"
#include "server/session/session.h"
#include "server/session/worker.h"
#include "server/store/holdings/grace.h"

namespace dafs::server {
namespace {

using wire::AuthType;
using wire::DafsStatus;

constexpr char kWrongPort[] =
    "an export without `insecure` takes only clients with a port below 1024; mount as root, or "
    "export with insecure";
constexpr uint32_t kLeastMessage = 1024;       // WIRE 11.3
constexpr uint32_t kLeastWritePosition = 136;  // the end of the fixed section of WRITE_INLINE

// WIRE 11.3: a multiple of 8, at least 1024, at most the requested size rounded down to 8.
uint32_t MessageSize(uint32_t asked, uint32_t by_default, uint32_t most) {
  const uint32_t wanted = asked == 0 ? by_default : asked;
  return std::max(std::min(wanted, most) / 8 * 8, kLeastMessage);
}

// Returns the position of padded write data. 0 if the client states no preference, because padding
// saves the server nothing.
uint32_t WritePosition(uint32_t asked, uint32_t max_request_size) {
  if (asked == 0) return 0;
  return std::clamp(asked / 8 * 8, kLeastWritePosition, max_request_size);
}

wire::ClientConnectArgs ConnectPart(const wire::ClientConnectAuthArgs& args) {
  wire::ClientConnectArgs part;
  part.use_checksums = args.use_checksums;
  part.use_response_cache = args.use_response_cache;
  part.max_credentials = args.max_credentials;
  part.max_request_size = args.max_request_size;
  part.max_response_size = args.max_response_size;
  part.max_requests = args.max_requests;
  part.inline_write_header_size = args.inline_write_header_size;
  part.use_back_control_channel = args.use_back_control_channel;
  part.use_rdma_read_channel = args.use_rdma_read_channel;
  part.fence_id_string = args.fence_id_string;
  part.client_id_string = args.client_id_string;
  part.client_verifier = args.client_verifier;
  return part;
}

wire::ClientConnectAuthRes ConnectAuthRes(const wire::ClientConnectRes& part) {
  wire::ClientConnectAuthRes res;
  res.session_id = part.session_id;
  res.client_id = part.client_id;
  res.use_checksums = part.use_checksums;
  res.use_response_cache = part.use_response_cache;
  res.max_credentials = part.max_credentials;
  res.max_request_size = part.max_request_size;
  res.max_response_size = part.max_response_size;
  res.max_requests = part.max_requests;
  res.inline_write_header_size = part.inline_write_header_size;
  res.use_back_control_channel = part.use_back_control_channel;
  res.use_rdma_read_channel = part.use_rdma_read_channel;
  return res;
}

}  // namespace

// Negotiates the values of the session, reserves its memory and posts its receives.
DafsStatus Session::Open(const wire::ClientConnectArgs& args) {
  const ServerOptions& options = *shared_.options;
  wire::ClientConnectRes res;
  res.use_checksums = args.use_checksums;
  res.max_request_size =
      MessageSize(args.max_request_size, options.default_message_bytes, options.max_message_bytes);
  res.max_response_size =
      MessageSize(args.max_response_size, options.default_message_bytes, options.max_message_bytes);
  res.inline_write_header_size = WritePosition(args.inline_write_header_size, res.max_request_size);
  // A session that no export admits has one credit only.
  credit_.emplace(*shared_.budget, size_t{res.max_request_size} + res.max_response_size,
                  place_.admitted ? options.max_requests : 1);
  const uint32_t granted =
      credit_->Open(args.max_requests == 0 ? options.default_requests : args.max_requests);
  const size_t before = receives_.size();  // those of the connect exchange
  for (uint32_t i = 0; i < granted; ++i) {
    absl::Status status = AddReceive(res.max_request_size);
    if (status.ok()) continue;
    LogWarning(absl::StrCat("session from ", peer_name_, ": ", i, " of ", granted,
                            " credits: ", status.ToString()));
    break;
  }
  const auto posted = static_cast<uint32_t>(receives_.size() - before);
  if (posted == 0) {
    credit_.reset();
    return DafsStatus::kResource;
  }
  credit_->Limit(posted);
  res.max_requests = posted;
  res.session_id = shared_.sessions->Open(*order_);
  // A session that no export admits modifies nothing, so it needs no cache.
  if (args.use_response_cache && place_.admitted) {
    cache_ =
        shared_.responses->Create(res.session_id, *order_, AsCacheOwner(), options.max_requests);
    res.use_response_cache = cache_ != nullptr;
  }
  res.use_rdma_read_channel = GrantsReadChannel(args.use_rdma_read_channel);
  res.use_back_control_channel = args.use_back_control_channel;
  res.client_id = client_->client_id();
  res.max_credentials = client_->credentials().most();
  negotiated_ = std::move(res);
  return DafsStatus::kOk;
}

// 6.2.1. Creates the session, not yet authenticated.
void Session::Connect(Call& call) {
  wire::ClientConnectArgs args;
  if (!call.Decode(args)) return;
  client_ = ConnectClient(args);
  const DafsStatus status = Open(args);
  if (status != DafsStatus::kOk) client_.reset();
  call.Finish(status, args, negotiated_);
}

// 6.2.4. Authenticates first: if that fails, no session exists (R58).
void Session::ConnectAuth(Call& call) {
  wire::ClientConnectAuthArgs args;
  if (!call.Decode(args)) return;
  const AuthType method = args.auth_req.auth_type;
  DafsStatus status = MayUse(method);
  if (status == DafsStatus::kNotAuthorized) status = DafsStatus::kNotAuthenticated;
  if (status != DafsStatus::kOk) {
    if (!place_.admitted) SayNotAdmitted(args.client_id_string);
    return call.FinishError(status);
  }
  wire::ClientConnectArgs connect = ConnectPart(args);
  client_ = ConnectClient(connect);
  status = Confirm(method);
  if (status == DafsStatus::kOk) {
    status = Open(connect);
    if (status != DafsStatus::kOk && place_.admitted) shared_.clients->SessionClosed(client_);
  }
  if (status != DafsStatus::kOk) {
    client_.reset();
    return call.FinishError(status);
  }
  Authenticated(method);
  wire::ClientConnectAuthRes res = ConnectAuthRes(negotiated_);
  res.auth_res.auth_type = method;
  res.trusted = trusted_;
  call.Finish(DafsStatus::kOk, args, res);
}

// 6.2.2. On an authenticated session it renews the authentication, with the same method.
void Session::ClientAuth(Call& call) {
  wire::ClientAuthArgs args;
  if (!call.Decode(args)) return;
  const AuthType method = args.auth_req.auth_type;
  DafsStatus status = MayUse(method);
  if (status == DafsStatus::kNotAuthorized) SayNotAdmitted(client_->client_id_string());
  if (status == DafsStatus::kOk && authenticated_) {
    if (method != auth_type_) status = DafsStatus::kNotAuthorized;
  } else if (status == DafsStatus::kOk) {
    status = Confirm(method);
    if (status == DafsStatus::kOk) Authenticated(method);
  }
  wire::ClientAuthRes res;
  res.auth_res.auth_type = method;
  res.trusted = trusted_;
  call.Finish(status, args, res);
}

// Returns kOk if this peer may authenticate with `method`: see server/clients/credentials.h.
DafsStatus Session::MayUse(AuthType method) const {
  switch (method) {
    case AuthType::kNone:
      return place_.admitted ? DafsStatus::kOk : DafsStatus::kNotAuthorized;
    case AuthType::kDefault:
      return DafsStatus::kOk;
    case AuthType::kText:
    case AuthType::kGss:
      return DafsStatus::kNotSupp;
  }
  return DafsStatus::kNotSupp;
}

std::shared_ptr<Client> Session::ConnectClient(const wire::ClientConnectArgs& args) {
  ClientTable& clients = *shared_.clients;
  return place_.admitted
             ? clients.Connect(args.client_id_string, args.client_verifier, args.max_credentials)
             : clients.ConnectStranger(args.client_id_string, args.client_verifier,
                                       args.max_credentials);
}

// The client takes its name; an earlier instance of it loses its state now (3.1.1.3, case C).
DafsStatus Session::Confirm(AuthType method) {
  if (!place_.admitted) return DafsStatus::kOk;
  const Principal principal{.method = method, .host = peer_.address};
  const ClientTable::Confirmation result =
      shared_.clients->Confirm(client_, principal, dat::Loop::Now());
  if (result.replaced != nullptr) {
    // Ends its connections: their machine may be gone without having closed them.
    for (const auto& worker : *shared_.workers) worker->EndSuperseded();
    shared_.store->ReleaseClient(result.replaced->client_id());
    shared_.store->grace().Complete(result.replaced->client_id_string());
    shared_.clients->Released(result.replaced);
  }
  if (result.holder.has_value()) {
    SayInUse(*result.holder);
  } else if (result.status == DafsStatus::kClidInUse) {
    SayRefused("identity",
               "its name belongs to a client that may still reclaim what it held before a restart, "
               "or that authenticates in another way; mount with clientid= if they are two");
  }
  shared_.store->grace().Review();
  return result.status;
}

void Session::SayInUse(const PeerAddress& holder) {
  SayRefused("identity", absl::StrCat("a client of that name has a lease from ", holder.ToString(),
                                      "; if they are two machines, mount on one of them with "
                                      "clientid="));
}

void Session::Authenticated(AuthType method) {
  authenticated_ = true;
  auth_type_ = method;
  if (cache_ != nullptr) cache_->SetPrincipal(AsCacheOwner().principal);
  trusted_ = place_.admitted;
  loop().Cancel(std::exchange(connect_timer_, 0));
  const std::string client =
      absl::StrCat("client ", ClientName(client_->client_id_string()), " at ", peer_name_);
  LogInfo(absl::StrCat(client, " connected: ", endpoint_->description()));
  Log(Severity::kDebug, absl::StrCat(client, " has ", negotiated_.max_requests, " requests of ",
                                     negotiated_.max_request_size, " bytes, responses of ",
                                     negotiated_.max_response_size, " bytes, checksums ",
                                     negotiated_.use_checksums ? "on" : "off"));
  // A wrong port is reported when an export is refused.
  if (!trusted_ && !HasWrongPort()) SayNotAdmitted(client_->client_id_string());
}

void Session::SayRefused(const char* kind, absl::string_view why) {
  SayRefused(client_->client_id_string(), kind, why);
}

void Session::SayRefused(const std::string& client_id_string, const char* kind,
                         absl::string_view why) {
  if (!shared_.refusals->Admits(place_.host, kind, dat::Loop::Now())) return;
  LogWarning(
      absl::StrCat("client ", ClientName(client_id_string), " at ", peer_name_, " refused: ", why));
}

bool Session::HasWrongPort() const {
  return std::any_of(
      shared_.options->exports.begin(), shared_.options->exports.end(),
      [this](const Export& each) { return each.Admission(peer_) == DafsStatus::kWrongSec; });
}

// No export admits the client.
void Session::SayNotAdmitted(const std::string& client_id_string) {
  if (HasWrongPort()) return SayRefused(client_id_string, "port", kWrongPort);
  SayRefused(client_id_string, "address",
             "no export admits its address; add that to an export's clients= to admit it");
}

// An export was refused (Export::Admission).
void Session::SayWrongPort() { SayRefused("port", kWrongPort); }

// 6.2.6. Complete ends the session after the response.
void Session::Disconnect(Call& call) {
  wire::DisconnectArgs args;
  if (!call.Decode(args)) return;
  call.Finish(DafsStatus::kOk, args, wire::DisconnectRes());
}

// 6.2.7.
void Session::Secinfo(Call& call) {
  wire::SecinfoArgs args;
  if (!call.Decode(args)) return;
  wire::SecinfoRes res;
  for (AuthType method : {AuthType::kNone, AuthType::kDefault}) {
    if (MayUse(method) == DafsStatus::kOk) res.secinfo.emplace_back().auth_type = method;
  }
  call.Finish(DafsStatus::kOk, args, res);
}

// 6.2.3.
void Session::ServerAuth(Call& call) {
  wire::ServerAuthArgs args;
  if (!call.Decode(args)) return;
  wire::ServerAuthRes res;
  res.auth_type = args.auth_type;
  const bool offered = args.auth_type == AuthType::kNone || args.auth_type == AuthType::kDefault;
  call.Finish(offered ? DafsStatus::kOk : DafsStatus::kNotSupp, args, res);
}

// Private (R15). An extension, once granted, stays until the session ends.
DafsStatus Session::Extend(const Caller& caller, const wire::ExtensionsArgs& args,
                           uint64_t* granted) {
  constexpr uint64_t kOfSession = wire::kExtensionByteNames | wire::kExtensionKeepAtime;
  *granted = args.wanted & (kOfSession | wire::kExtensionReadKeepsAtime);
  extensions_.fetch_or(*granted, std::memory_order_relaxed);
  constexpr uint64_t kOfExport = wire::kExtensionSquashed | wire::kExtensionSquashedInPart;
  if ((args.wanted & kOfExport) == 0 || args.filehandle == wire::FileHandle()) {
    return DafsStatus::kOk;
  }
  Squashes squashes = Squashes::kNobody;
  const DafsStatus status = store().WhoIsSquashed(caller, args.filehandle, &squashes);
  // An untrusted client has only the anonymous credentials.
  if (!trusted_ || squashes == Squashes::kEverybody) {
    *granted |= args.wanted & wire::kExtensionSquashed;
  } else if (squashes == Squashes::kEverybodyInSome) {
    *granted |= args.wanted & wire::kExtensionSquashedInPart;
  }
  return status;
}

// 6.2.8.
dat::Task<void> Session::RegisterCred(Call& call) {
  wire::RegisterCredArgs args;
  if (!call.Decode(args)) co_return;
  wire::RegisterCredRes res;
  if (!trusted_) {
    call.Finish(DafsStatus::kNotAuthorized, args, res);
    co_return;
  }
  Credential credential;
  DafsStatus status;
  if (args.cred_type == wire::CredType::kName) {
    auto look_up = [&] {
      Store::RestoreServerIdentity();
      status = MakeCredential(args, &credential);
    };
    co_await Offload(pool(), loop(), look_up);
  } else {
    status = MakeCredential(args, &credential);
  }
  if (status == DafsStatus::kOk) {
    status = client_->credentials().Register(std::move(credential), &res.cred_handle);
  }
  call.Finish(status, args, res);
}

// 6.2.9.
void Session::ReleaseCred(Call& call) {
  wire::ReleaseCredArgs args;
  if (!call.Decode(args)) return;
  DafsStatus status = DafsStatus::kNotAuthorized;
  if (trusted_) status = client_->credentials().Release(args.cred_handle);
  call.Finish(status, args, wire::ReleaseCredRes());
}

CacheOwner Session::AsCacheOwner() const {
  return {.client_id_string = client_->client_id_string(),
          .verifier = client_->verifier(),
          .principal = {.method = auth_type_, .host = peer_.address}};
}

// The session has ended. Its opens and credentials stay with its client, as do files that its last
// requests may still open (MaybeForget).
void Session::Unopen() {
  if (!negotiated_.session_id.is_zero()) shared_.sessions->Close(negotiated_.session_id);
  const std::string why(end_reason_.ok() ? "by the peer" : end_reason_.message());
  if (bound_to_ != nullptr) {
    return LogInfo(absl::StrCat(ChannelName(), " from ", peer_name_, " closed: ", why));
  }
  if (!authenticated_) {
    return LogInfo(
        absl::StrCat("connection from ", peer_name_, " closed without a session: ", why));
  }
  const std::string client =
      absl::StrCat("client ", ClientName(client_->client_id_string()), " at ", peer_name_);
  if (end_reason_.ok()) return LogInfo(absl::StrCat(client, " disconnected"));
  LogNotice(absl::StrCat(client, " lost: ", why, "; what it holds is kept until its lease ends"));
}

}  // namespace dafs::server
