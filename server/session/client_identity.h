// The client that a session belongs to, and how it has authenticated.
// Spec: 3.1.1, 6.2; R58, R80, R81.
// Belongs to the session's thread; nothing blocks.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/clients/client_table.h"
#include "server/clients/response_cache.h"
#include "server/session/connection/gss_rounds.h"
#include "server/session/request.h"
#include "server/session/shared/shared.h"
#include "server/store/fencing/fenced_session.h"
#include "server/store/objects/export.h"
#include "wire/messages/session.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class ClientIdentity {
 public:
  // `admitted`: some export admits `peer`, or may do so once it has authenticated by Kerberos or a
  // password.
  // `shared` and `peer` are borrowed and outlive this.
  ClientIdentity(const Shared& shared, const Peer& peer, bool admitted)
      : shared_(shared), peer_(peer), admitted_(admitted) {}
  ClientIdentity(const ClientIdentity&) = delete;
  ClientIdentity& operator=(const ClientIdentity&) = delete;

  // Returns kOk if the peer may authenticate with `method`: see server/clients/credentials.h.
  wire::DafsStatus MayUse(wire::AuthType method) const;
  // CLIENT_CONNECT: the client is known, and not yet authenticated.
  void Connect(const wire::ClientConnectArgs& args);
  // The client takes its name; an earlier instance of it loses its state now (3.1.1.3, case C).
  // kClidInUse: another client has the name; `holder` is then its host, if it has a lease.
  ClientTable::Confirmation Confirm(wire::AuthType method);
  // Withdraws Confirm if no session could be opened.
  void Unconfirm();
  void SetAuthenticated(wire::AuthType method);
  // With kGss and kText, also: what the exchange has proven. `proof.principal` is that of the peer.
  void SetProof(const GssProof& proof);
  // Whether a session that has authenticated as this principal may do so as `principal`: the same
  // one. Before that, whether an export admits it.
  bool MayBe(const std::shared_ptr<const std::string>& principal) const;
  // No session was opened: there is no client.
  void Reset() {
    fence_.reset();
    client_.reset();
  }
  // The session opens no more files, so its client may be forgotten.
  void Close();

  bool known() const { return client_ != nullptr; }
  bool admitted() const { return admitted_; }
  bool authenticated() const { return authenticated_; }
  // Whether what the client has proven is out of date, so that it must authenticate again.
  bool expired(absl::Time now) const { return now >= expires_; }
  // An untrusted client is one user, or the anonymous user, and registers no credentials
  // (3.1.1.1.2).
  bool trusted() const { return authenticated_ && admitted_ && user_ == nullptr; }
  wire::AuthType auth_type() const { return auth_type_; }  // once authenticated
  // Require known().
  const std::string& client_id_string() const { return client_->client_id_string(); }
  Client& client() const { return *client_; }
  CacheOwner AsCacheOwner() const;

  // Returns true if a later instance of the client has connected.
  bool superseded() const { return client_ != nullptr && client_->superseded(); }
  // Renews the lease, while authenticated.
  void Renew(absl::Time now) const;
  // Makes `request` act for the client and for the user of its cred_handle.
  void ActFor(Request& request) const;

 private:
  bool IsAdmittedWithoutPrincipal() const;

  const Shared& shared_;
  const Peer& peer_;
  const bool admitted_;
  std::shared_ptr<Client> client_;        // shared with the table and the client's other sessions
  std::unique_ptr<FencedSession> fence_;  // null: the session has no fence id
  bool authenticated_ = false;
  wire::AuthType auth_type_ = wire::AuthType::kNone;
  std::shared_ptr<const Credential> user_;  // of an untrusted client; null: the anonymous user
  absl::Time expires_ = absl::InfiniteFuture();
};

}  // namespace dafs::server
