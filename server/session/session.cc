#include "server/session/session.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "server/clients/client_name.h"
#include "server/session/audited_requests.h"
#include "server/session/directives/callbacks.h"
#include "server/session/worker.h"
#include "server/store/holdings/open_doubts.h"
#include "server/store/holdings/promises/promises.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Completions per Poll, so that one busy session does not starve the others.
constexpr size_t kBatch = 16;

}  // namespace

dat::EndpointOptions Session::EndpointOptions(const ServerOptions& options) {
  dat::EndpointOptions endpoint;
  endpoint.max_receives = options.max_requests + 2;
  endpoint.max_sends = options.max_requests + 2 + Transfers::kRdmaCredits;
  return endpoint;
}

Session::Session(Worker& worker, const Shared& shared, dat::Domain& domain, const dat::Region& slab,
                 std::unique_ptr<dat::Endpoint> endpoint, SessionTable::Place place,
                 std::unique_ptr<ExportedRegions> exports)
    : worker_(worker),
      shared_(shared),
      place_(std::move(place)),
      connection_(worker.loop(), *this, domain, std::move(endpoint)),
      transfers_(worker.loop(), worker.direct_buffers(), slab, shared.options->transfer_timeout,
                 [this](uint32_t operations) { OnStalled(operations); }),
      identity_(shared_, connection_.peer(), place_.admitted),
      refusals_(shared_, connection_, place_.host),
      channels_(*this, std::move(exports)),
      gss_(shared_, connection_),
      password_(shared_, connection_),
      requests_(*this) {
  absl::Status status = requests_.flow().Start();
  if (status.ok()) status = connection_.endpoint().Accept({});
  if (!status.ok()) {
    Abort(std::move(status));
    return;
  }
  const absl::Duration limit = shared_.options->connect_timeout;
  connection_.LimitTo(limit, absl::DeadlineExceededError(absl::StrCat("no authenticated session ",
                                                                      absl::FormatDuration(limit),
                                                                      " after the connection")));
}

Session::~Session() {
  connection_.Close();  // before the memory that it may use
  // Releases memory before Leave: an observer that sees no session also sees no memory in use.
  pending_work_.reset();
  requests_.flow().ReleaseMemory();
  shared_.sessions->Leave(place_);
}

bool Session::Poll() {
  requests_.flow().FreeDropped();
  if (connection_.disconnected()) return false;
  dat::Completion completions[kBatch];
  const size_t count = connection_.BeginTurn(completions);
  requests_.BeginTurn();
  for (size_t i = 0; i < count; ++i) OnCompletion(completions[i]);
  requests_.EndTurn();
  connection_.EndTurn();
  return count > 0;
}

void Session::OnCompletion(const dat::Completion& completion) {
  switch (completion.event) {
    case dat::Event::kConnected:
      return;
    case dat::Event::kReceive:
      if (!completion.status.ok()) return;  // flushed: kDisconnected follows
      return requests_.OnReceive(*FromCookie<Receive>(completion.cookie), completion.size_bytes);
    case dat::Event::kSend: {
      std::unique_ptr<Outgoing> outgoing(FromCookie<Outgoing>(completion.cookie));
      if (outgoing->rdma_credits > 0) transfers_.watch().Complete(outgoing->rdma_credits);
      return requests_.OnSent(std::move(outgoing));
    }
    case dat::Event::kRdmaWrite:
    case dat::Event::kRdmaRead: {
      auto* work = FromCookie<RdmaWork>(completion.cookie);
      if (work == nullptr) return;  // unsignaled, flushed: its credit returns with the response
      channels_.OwnerOrSelf().transfers_.watch().Complete(1);
      work->Completed(completion.status.ok());
      return channels_.OwnerOrSelf().transfers_.credits().Return(1);
    }
    case dat::Event::kInvalidated:
      return;  // this side has no windows
    case dat::Event::kDisconnected:
      return OnDisconnected(completion.status);
  }
}

void Session::EndIfSuperseded() {
  if (!identity_.superseded()) return;
  Abort(absl::AbortedError("a new instance of this client has connected"));
}

void Session::EndIfOf(const wire::ClientId& client_id, const absl::Status& why) {
  if (identity_.known() && identity_.client().client_id() == client_id) Abort(why);
}

std::optional<SessionReport> Session::Report() const {
  if (!identity_.known() || !identity_.authenticated() || connection_.disconnected()) {
    return std::nullopt;
  }
  return SessionReport{.client_id = identity_.client().client_id(),
                       .peer = connection_.peer_name(),
                       .transport = connection_.description(),
                       .age = Loop::Now() - since_,
                       .traffic = traffic_,
                       .rate = rate_.Get(Loop::Now(), traffic_),
                       .version = terms_.program_version()};
}

void Session::OnStalled(uint32_t operations) {
  const std::string why = absl::StrCat("no RDMA operation completed in ",
                                       absl::FormatDuration(shared_.options->transfer_timeout),
                                       ", of ", operations, " outstanding");
  LogWarning(absl::StrCat("session from ", connection_.peer_name(), ": ended: ", why));
  Abort(absl::DeadlineExceededError(why));
}

DafsStatus Session::Open(const wire::ClientConnectArgs& args) {
  // Its domain has no memory for transfers.
  if (channels_.is_for_references()) return DafsStatus::kIllegalState;
  const ServerOptions& options = *shared_.options;
  wire::ClientConnectRes res = Negotiate(options, args);
  // A session that no export admits has one credit only.
  res.max_requests =
      requests_.flow().Open(res.max_request_size, res.max_response_size,
                            args.max_requests == 0 ? options.default_requests : args.max_requests,
                            place_.admitted ? options.max_requests : 1);
  if (res.max_requests == 0) return DafsStatus::kResource;
  res.session_id = shared_.sessions->Open(*terms_.order());
  // A session that no export admits modifies nothing, so it needs no cache.
  if (args.use_response_cache && place_.admitted) {
    res.use_response_cache = requests_.recorder().Open(
        res.session_id, *terms_.order(), identity_.AsCacheOwner(), options.max_requests);
  }
  res.client_id = identity_.client().client_id();
  res.max_credentials = identity_.client().credentials().most();
  terms_.SetNegotiated(res);
  return DafsStatus::kOk;
}

DafsStatus Session::Confirm(wire::AuthType method) {
  const ClientTable::Confirmation result = identity_.Confirm(method);
  if (result.holder.has_value()) {
    refusals_.SayInUse(identity_.client_id_string(), *result.holder);
  } else if (result.status == DafsStatus::kClidInUse) {
    refusals_.Say(identity_.client_id_string(), "identity",
                  "its name belongs to a client that may still reclaim what it held before a "
                  "restart, or that authenticates in another way; mount with clientid= if they are "
                  "two");
  }
  if (result.status == DafsStatus::kDelay) {
    refusals_.Say(identity_.client_id_string(), "draining",
                  "the server is draining and takes no new clients; it waits until dafsctl server "
                  "drain --undo, or for another server");
  }
  return result.status;
}

void Session::SetAuthenticated(wire::AuthType method) {
  identity_.SetAuthenticated(method);
  requests_.recorder().SetPrincipal(identity_.AsCacheOwner().principal);
  connection_.CancelLimit();
  ++worker_.counts().sessions_opened;
  const wire::ClientConnectRes& negotiated = terms_.negotiated();
  const std::string client = absl::StrCat("client ", ClientName(identity_.client_id_string()),
                                          " at ", connection_.peer_name());
  const std::shared_ptr<const std::string>& principal = connection_.peer().principal;
  LogInfo(
      absl::StrCat(client, " connected",
                   principal == nullptr ? "" : absl::StrCat(" as ", absl::CHexEscape(*principal)),
                   ": ", connection_.endpoint().description()));
  Log(Severity::kDebug, absl::StrCat(client, " has ", negotiated.max_requests, " requests of ",
                                     negotiated.max_request_size, " bytes, responses of ",
                                     negotiated.max_response_size, " bytes, checksums ",
                                     negotiated.use_checksums ? "on" : "off"));
  // Wrong security is reported when an export is refused.
  if (!identity_.admitted() && !refusals_.HasWrongSecurity()) {
    refusals_.SayNotAdmitted(identity_.client_id_string());
  }
}

void Session::CloseInOrder() {
  // The cache ends before the client sees the response and may query it on another session.
  requests_.recorder().End(/*keep=*/false);
  shared_.sessions->Close(terms_.negotiated().session_id);
  if (pending_work_ != nullptr) pending_work_->Drop();  // none is reported any more
  if (Session* back = channels_.back(); back != nullptr) {
    shared_.callbacks->Left(identity_.client(), back->channels().back_control()->route());
  }
}

bool Session::IsVoid() {
  if (!identity_.known()) return false;
  const Promisee promisee = identity_.client().promisee();
  return promisee != 0 && shared_.store->promises().IsVoid(promisee);
}

// The client's opens and credentials stay with it, as do files that the last requests may still
// open (MaybeForget).
void Session::OnDisconnected(const absl::Status& why) {
  // DISCONNECT would have ended the connection with its response.
  connection_.OnDisconnected(why.ok() && identity_.authenticated()
                                 ? absl::UnavailableError("connection closed without disconnect")
                                 : why);
  transfers_.watch().Stop();
  if (pending_work_ != nullptr) pending_work_->Drop();
  if (terms_.has_session()) shared_.sessions->Close(terms_.negotiated().session_id);
  LogEnd();
  channels_.Unbind();
  requests_.OnDisconnected();
  holder_waits_.End();
  MaybeForget();
}

void Session::LogEnd() {
  const absl::Status& reason = connection_.end_reason();
  const std::string& peer = connection_.peer_name();
  const std::string why(reason.ok() ? "by the peer" : reason.message());
  if (channels_.owner() != nullptr) {
    return LogInfo(absl::StrCat(channels_.name(), " from ", peer, " closed: ", why));
  }
  if (!identity_.authenticated()) {
    return LogInfo(absl::StrCat("connection from ", peer, " closed without a session: ", why));
  }
  const std::string client =
      absl::StrCat("client ", ClientName(identity_.client_id_string()), " at ", peer);
  if (reason.ok()) return LogInfo(absl::StrCat(client, " disconnected"));
  ++worker_.counts().sessions_lost;
  if (shared_.audit != nullptr) AuditLoss(*shared_.audit, *this, why);
  LogNotice(absl::StrCat(client, " lost: ", why, "; what it holds is kept until its lease ends"));
}

void Session::MaybeForget() {
  if (!connection_.disconnected() || requests_.busy() || channels_.any() ||
      (pending_work_ != nullptr && pending_work_->running())) {
    return;
  }
  // Only once: nested ends of calls all come here. By the time of a second Forget, another session
  // may have this address.
  if (std::exchange(forgotten_, true)) return;
  // Nothing changes the cache any more (5.2.5): clients may query it now.
  requests_.recorder().End(identity_.authenticated());
  if (identity_.authenticated() && !connection_.end_reason().ok()) {
    shared_.store->open_doubts().SessionLost(identity_.client().client_id());
  }
  identity_.Close();
  worker_.Forget(this);
}

}  // namespace dafs::server
