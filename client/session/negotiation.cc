#include "client/session/negotiation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "wire/protocol/program_version.h"
#include "wire/protocol/status.h"

namespace dafs::client {

using wire::DafsStatus;

Task<absl::Status> Negotiation::Run(absl::Time deadline) {
  const Auth auth = context_.client.options().auth;
  const bool by_proof = auth == Auth::kGss || auth == Auth::kText;
  Task<absl::Status> connecting =
      by_proof ? ConnectThenLogIn(deadline) : ConnectAndAuthenticate(deadline);
  CO_RETURN_IF_ERROR(co_await connecting);
  Task<absl::Status> asking = AskForExtensions(deadline);
  absl::Status status = co_await asking;
  co_return status;
}

Task<absl::Status> Negotiation::Send(CallBase& call, absl::Time deadline) {
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = exchanger_.Run(wire::CredHandle(), chain, deadline);
  absl::Status status = co_await task;
  co_return status;
}

template <class Args>
void Negotiation::Propose(Args& args) const {
  const ClientOptions& options = context_.client.options();
  args.use_checksums = options.checksums;
  args.use_response_cache = options.response_cache;
  args.use_rdma_read_channel = options.rdma_read_channel;
  args.use_back_control_channel = options.back_control_channel || context_.callbacks;
  args.max_credentials = options.max_credentials;
  args.max_request_size = options.max_request_size;
  args.max_response_size = options.max_response_size;
  args.max_requests = options.max_requests;
  args.fence_id_string = options.fence_id;
  args.client_id_string = options.client_id_string;
  args.client_verifier = options.client_verifier;
}

// Stores the values that the server chose, after checking them against the rules of WIRE 11.3.
template <class Res>
absl::Status Negotiation::Agree(const Res& res) {
  const ClientOptions& options = context_.client.options();
  auto size_is_good = [](uint32_t size, uint32_t asked) {
    return size % 8 == 0 && size >= 1024 && size <= asked;
  };
  if (res.session_id.is_zero() || res.client_id.is_zero() ||
      res.use_checksums != options.checksums || res.max_requests < 1 || res.max_requests > 65535 ||
      !size_is_good(res.max_request_size, options.max_request_size) ||
      !size_is_good(res.max_response_size, options.max_response_size)) {
    return absl::DataLossError(
        absl::StrCat("the server breaks the rules of negotiation: checksums ", res.use_checksums,
                     ", max_requests ", res.max_requests, ", max_request_size ",
                     res.max_request_size, ", max_response_size ", res.max_response_size));
  }
  Negotiated& negotiated = context_.negotiated;
  negotiated.session_id = res.session_id;
  negotiated.client_id = res.client_id;
  negotiated.checksums = res.use_checksums;
  negotiated.response_cache = res.use_response_cache;
  negotiated.rdma_read_channel = res.use_rdma_read_channel;
  negotiated.back_control_channel =
      res.use_back_control_channel && (options.back_control_channel || context_.callbacks);
  negotiated.max_credentials = res.max_credentials;
  negotiated.max_request_size = res.max_request_size;
  negotiated.max_response_size = res.max_response_size;
  negotiated.max_requests = res.max_requests;
  exchanger_.slots().credits().Grant(res.max_requests);
  return absl::OkStatus();
}

absl::Status Negotiation::Refused(const CallBase& call) const {
  if (call.status == DafsStatus::kIllegalProt) {
    return absl::FailedPreconditionError(absl::StrCat("the server speaks protocol version ",
                                                      exchanger_.peer_version(), ", not ",
                                                      wire::kProtocolVersion));
  }
  if (call.status == DafsStatus::kDelay) {
    return absl::UnavailableError("the server is draining: it takes no new clients now");
  }
  absl::Status refused = wire::StatusFromDafs(call.status, wire::Name(call.proc()));
  if (call.status == DafsStatus::kNotAuthenticated || call.status == DafsStatus::kNotAuthorized) {
    return absl::UnauthenticatedError(refused.message());
  }
  return refused;
}

// One exchange if the server accepts the client's first method; otherwise ConnectThenAuthenticate.
Task<absl::Status> Negotiation::ConnectAndAuthenticate(absl::Time deadline) {
  const Auth wish = context_.client.options().auth;
  Call<wire::ClientConnectAuthArgs> connect;
  Propose(connect.args);
  connect.args.auth_req.auth_type =
      wish == Auth::kDefault ? wire::AuthType::kDefault : wire::AuthType::kNone;
  Task<absl::Status> connecting = Send(connect, deadline);
  CO_RETURN_IF_ERROR(co_await connecting);
  if (connect.status == DafsStatus::kOk) {
    context_.negotiated.auth = connect.args.auth_req.auth_type;
    context_.negotiated.trusted = connect.res.trusted;
    co_return Agree(connect.res);
  }
  const bool other_method = connect.status == DafsStatus::kNotAuthenticated ||
                            connect.status == DafsStatus::kNotAuthorized ||
                            connect.status == DafsStatus::kNotSupp;
  if (!other_method || (wish != Auth::kAuto && connect.status != DafsStatus::kNotSupp)) {
    co_return Refused(connect);
  }
  Task<absl::Status> long_way = ConnectThenAuthenticate(deadline);
  absl::Status status = co_await long_way;
  co_return status;
}

// Sends CLIENT_CONNECT, which proves nothing yet.
Task<absl::Status> Negotiation::Connect(absl::Time deadline) {
  Call<wire::ClientConnectArgs> connect;
  Propose(connect.args);
  Task<absl::Status> connecting = Send(connect, deadline);
  CO_RETURN_IF_ERROR(co_await connecting);
  if (!connect.ok()) co_return Refused(connect);
  co_return Agree(connect.res);
}

// Sends CLIENT_CONNECT, SECINFO to learn the methods on offer, and CLIENT_AUTH with the first one
// that the client supports. A failed CLIENT_CONNECT_AUTH leaves no session, so the channel accepts
// another connect request.
Task<absl::Status> Negotiation::ConnectThenAuthenticate(absl::Time deadline) {
  Task<absl::Status> connecting = Connect(deadline);
  CO_RETURN_IF_ERROR(co_await connecting);
  Call<wire::SecinfoArgs> secinfo;
  Task<absl::Status> asking = Send(secinfo, deadline);
  CO_RETURN_IF_ERROR(co_await asking);
  if (!secinfo.ok()) {  // the server does not list methods: try both
    secinfo.res.secinfo.resize(2);
    secinfo.res.secinfo[1].auth_type = wire::AuthType::kDefault;
  }
  Task<absl::Status> authenticating = Authenticate(secinfo.res, deadline);
  absl::Status status = co_await authenticating;
  co_return status;
}

// The connect exchange has 4,096 bytes at most (WIRE 9.4), which is too little for some tickets.
Task<absl::Status> Negotiation::ConnectThenLogIn(absl::Time deadline) {
  Task<absl::Status> connecting = Connect(deadline);
  CO_RETURN_IF_ERROR(co_await connecting);
  context_.negotiated.auth =
      context_.client.options().auth == Auth::kText ? wire::AuthType::kText : wire::AuthType::kGss;
  Task<absl::Status> authenticating = login_.Authenticate(deadline);
  CO_RETURN_IF_ERROR(co_await authenticating);
  if (context_.client.options().must_be_trusted && !context_.negotiated.trusted) {
    co_return absl::UnauthenticatedError(
        "Kerberos: the server does not let this machine act for its users; give dafsd --trusted "
        "with its principal");
  }
  co_return absl::OkStatus();
}

Task<absl::Status> Negotiation::Authenticate(const wire::SecinfoRes& offered, absl::Time deadline) {
  const Auth wish = context_.client.options().auth;
  std::string names;
  std::vector<wire::AuthType> methods;
  for (const wire::SecInfo& info : offered.secinfo) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", static_cast<uint32_t>(info.auth_type));
    const bool none = info.auth_type == wire::AuthType::kNone && wish != Auth::kDefault;
    const bool by_default = info.auth_type == wire::AuthType::kDefault && wish != Auth::kNone;
    if (none || by_default) methods.push_back(info.auth_type);
  }
  absl::Status refused = absl::UnauthenticatedError(absl::StrCat(
      "the server offers authentication methods [", names, "], none supported by this client"));
  for (wire::AuthType method : methods) {
    Call<wire::ClientAuthArgs> auth;
    auth.args.auth_req.auth_type = method;
    Task<absl::Status> authenticating = Send(auth, deadline);
    CO_RETURN_IF_ERROR(co_await authenticating);
    if (auth.ok()) {
      context_.negotiated.auth = method;
      context_.negotiated.trusted = auth.res.trusted;
      co_return absl::OkStatus();
    }
    refused = Refused(auth);
  }
  co_return refused;
}

// Negotiates extensions of the draft (R15). Each session does so before it sends a name, since the
// server keeps the result only for the session. If the server does not know the procedure, the
// client follows the draft alone.
Task<absl::Status> Negotiation::AskForExtensions(absl::Time deadline) {
  Call<wire::ExtensionsArgs> ask;
  ask.args.wanted = wire::kExtensionByteNames | wire::kExtensionReadKeepsAtime |
                    wire::kExtensionLockWaits | wire::kExtensionAttributesAfter;
  if (context_.client.options().delegations) {
    ask.args.wanted |= wire::kExtensionOpenXorDelegation;
  }
  ask.args.wanted |= wire::BitsOf({DAFS_VERSION_MAJOR, DAFS_VERSION_MINOR, DAFS_VERSION_PATCH});
  if (context_.client.options().reference_directory_bytes > 0) {
    ask.args.wanted |= wire::kExtensionReferences;
  }
  if (context_.client.owners().maps()) ask.args.wanted |= wire::kExtensionOwnerNames;
  if (context_.client.options().keep_atime) ask.args.wanted |= wire::kExtensionKeepAtime;
  Task<absl::Status> asking = Send(ask, deadline);
  CO_RETURN_IF_ERROR(co_await asking);
  const uint64_t granted = ask.ok() ? ask.res.granted & ask.args.wanted : 0;
  context_.negotiated.extensions = granted;
  context_.negotiated.attributes_after = (granted & wire::kExtensionAttributesAfter) != 0;
  if (granted == 0) co_return absl::OkStatus();  // it has no private procedures
  Task<absl::Status> identifying = AskForIdentity(deadline);
  absl::Status status = co_await identifying;
  co_return status;
}

// Each session asks, since another server may answer at the same address.
Task<absl::Status> Negotiation::AskForIdentity(absl::Time deadline) {
  Call<wire::ServerIdentityArgs> ask;
  Task<absl::Status> asking = Send(ask, deadline);
  CO_RETURN_IF_ERROR(co_await asking);
  if (ask.ok() && !ask.res.server_id.is_zero()) context_.negotiated.identity = ask.res;
  co_return absl::OkStatus();
}

}  // namespace dafs::client
