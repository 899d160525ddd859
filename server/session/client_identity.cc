#include "server/session/client_identity.h"

#include <utility>

#include "runtime/loop/loop.h"
#include "server/session/directives/callbacks.h"
#include "server/session/worker.h"
#include "server/store/fencing/fencing.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/persistent_locks.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/parts/releases.h"

namespace dafs::server {

using wire::AuthType;
using wire::DafsStatus;

DafsStatus ClientIdentity::MayUse(AuthType method) const {
  switch (method) {
    case AuthType::kNone:
      return admitted_ && IsAdmittedWithoutPrincipal() ? DafsStatus::kOk
                                                       : DafsStatus::kNotAuthorized;
    case AuthType::kDefault:  // also for a client that no export admits
      return !admitted_ || IsAdmittedWithoutPrincipal() ? DafsStatus::kOk
                                                        : DafsStatus::kNotAuthorized;
    case AuthType::kGss:
      return shared_.options->acceptor != nullptr &&
                     MayBeAdmittedByKerberos(shared_.store->exports(), peer_)
                 ? DafsStatus::kOk
                 : DafsStatus::kNotSupp;
    case AuthType::kText:
      return shared_.passwords != nullptr &&
                     MayBeAdmittedByPassword(shared_.store->exports(), peer_)
                 ? DafsStatus::kOk
                 : DafsStatus::kNotSupp;
  }
  return DafsStatus::kNotSupp;
}

bool ClientIdentity::IsAdmittedWithoutPrincipal() const {
  Peer peer = peer_;
  peer.principal = nullptr;
  return IsAdmitted(shared_.store->exports(), peer);
}

bool ClientIdentity::MayBe(const std::shared_ptr<const std::string>& principal) const {
  Peer peer = peer_;
  peer.principal = principal;
  if (authenticated_) return peer == peer_;
  return IsAdmitted(shared_.store->exports(), peer);
}

void ClientIdentity::Connect(const wire::ClientConnectArgs& args) {
  ClientTable& clients = *shared_.clients;
  client_ = admitted_
                ? clients.Connect(args.client_id_string, args.client_verifier, args.max_credentials)
                : clients.ConnectStranger(args.client_id_string, args.client_verifier,
                                          args.max_credentials);
  if (!args.fence_id_string.empty()) {
    fence_ = std::make_unique<FencedSession>(shared_.store->fencing().sessions(),
                                             client_->client_id(), args.fence_id_string);
  }
}

ClientTable::Confirmation ClientIdentity::Confirm(AuthType method) {
  if (!admitted_) return {};
  ClientTable::Confirmation result =
      shared_.clients->Confirm(client_, PrincipalOf(method, peer_), Loop::Now());
  if (result.replaced != nullptr) {
    // Ends its connections: their machine may be gone without having closed them.
    for (const auto& worker : *shared_.workers) worker->EndSuperseded();
    shared_.callbacks->Forget(result.replaced->client_id(), result.replaced->promisee());
    shared_.store->releases().SupersedeClient(result.replaced->client_id(), client_->client_id(),
                                              client_->client_id_string());
    shared_.store->grace().Complete(result.replaced->client_id_string());
    shared_.clients->Released(result.replaced);
  }
  if (result.status == DafsStatus::kOk) {
    shared_.store->persistent_locks().Arrived(client_->client_id_string(), client_->verifier());
  }
  if (result.has_no_promises) shared_.store->promises().Returned(client_->client_id_string());
  shared_.store->grace().Review();
  return result;
}

void ClientIdentity::Unconfirm() {
  if (admitted_) shared_.clients->SessionClosed(client_);
}

void ClientIdentity::SetAuthenticated(AuthType method) {
  authenticated_ = true;
  auth_type_ = method;
}

void ClientIdentity::SetProof(const GssProof& proof) {
  user_ = proof.user;
  expires_ = proof.expires;
}

void ClientIdentity::Close() {
  if (authenticated_ && client_ != nullptr && admitted_) {
    shared_.clients->SessionClosed(std::exchange(client_, nullptr));
  }
}

CacheOwner ClientIdentity::AsCacheOwner() const {
  return {.client_id_string = client_->client_id_string(),
          .verifier = client_->verifier(),
          .principal = PrincipalOf(auth_type_, peer_)};
}

void ClientIdentity::Renew(absl::Time now) const {
  if (authenticated_ && !expired(now)) client_->Renew(now);
}

void ClientIdentity::ActFor(Request& request) const {
  if (client_ == nullptr) return;
  Caller& caller = request.caller;
  caller.client_id = client_->client_id();
  // A client owns the name that it sends only after it was confirmed, and Grace identifies clients
  // by name.
  if (admitted_) {
    caller.client_name = client_->client_id_string();
    caller.client_verifier = client_->verifier();
  }
  caller.holdings = client_->holdings();
  caller.promisee = client_->promisee();
  caller.fence = fence_.get();
  if (user_ != nullptr) {
    request.credential = user_;  // cred_handle is zero: no other is known
  } else if (!request.header().cred_handle.is_zero()) {
    request.credential = client_->credentials().Find(request.header().cred_handle);
  }
  // Zero, or released since the check: the anonymous user.
  if (request.credential == nullptr) return;
  caller.uid = request.credential->uid;
  caller.gid = request.credential->gid;
  caller.groups = request.credential->groups;
}

}  // namespace dafs::server
