// One session, from the connection of its Operation Channel to the end. Also one optional channel,
// which begins like a session (channels.h). Composes the parts; each has a header of its own.
// Spec: 3.1 (sessions), 3.2.6 (flow control), 6.2; WIRE 9.2, 11.
//
// Belongs to its worker's thread; nothing blocks. A fault of the peer ends this session only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"
#include "server/clients/options.h"
#include "server/session/channels.h"
#include "server/session/client_identity.h"
#include "server/session/connection/connection.h"
#include "server/session/connection/gss_rounds.h"
#include "server/session/connection/password_check.h"
#include "server/session/connection/refusals.h"
#include "server/session/connection/terms.h"
#include "server/session/modification.h"
#include "server/session/pending_work.h"
#include "server/session/requests.h"
#include "server/session/shared/session_report.h"
#include "server/session/shared/session_table.h"
#include "server/session/shared/shared.h"
#include "server/session/transfer/transfers.h"

namespace dafs::server {

class Worker;

class Session final : public Pollable {
 public:
  static dat::EndpointOptions EndpointOptions(const ServerOptions& options);

  // Posts the first receive and accepts the connection. `slab` is the worker's direct memory in
  // this domain. If the start fails, the session ends as if the peer had closed it.
  Session(Worker& worker, const Shared& shared, dat::Domain& domain, const dat::Region& slab,
          std::unique_ptr<dat::Endpoint> endpoint, SessionTable::Place place,
          std::unique_ptr<ExportedRegions> exports = nullptr);
  ~Session() override;

  bool Poll() override;
  WaitHandle Arm() override { return connection_.endpoint().Arm(); }

  // Ends the session now, for a reason of the server (it stops, or the client was superseded).
  void Abort(absl::Status why) { connection_.Abort(std::move(why)); }
  // Ends the session if a later instance of its client has connected. That instance may query the
  // outcome of the old instance's requests.
  void EndIfSuperseded();
  // Ends the session if it is one of this client.
  void EndIfOf(const wire::ClientId& client_id, const absl::Status& why);
  // nullopt for a channel, and for a session whose client has not authenticated.
  std::optional<SessionReport> Report() const;
  // Destroys the session if it has ended and no work of it runs any more.
  void MaybeForget();

  // The steps of the connect exchange, for procedures that have identified the client.
  // Negotiates the values of the session, reserves its memory and posts its receives. kResource:
  // not even one receive can be posted.
  wire::DafsStatus Open(const wire::ClientConnectArgs& args);
  // The client takes its name. Logs a refusal.
  wire::DafsStatus Confirm(wire::AuthType method);
  // The client has proven to be a principal; null: it has not. Before Confirm.
  void SetPrincipal(std::shared_ptr<const std::string> principal) {
    connection_.SetPrincipal(std::move(principal));
  }
  // The client of the open session has authenticated with `method`.
  void SetAuthenticated(wire::AuthType method);
  // The client ends the session with the response that is about to be sent.
  void CloseInOrder();

  const Shared& shared() const { return shared_; }
  Store& store() { return *shared_.store; }
  Pool& pool() { return *shared_.pool; }
  Worker& worker() { return worker_; }
  Loop& loop() { return connection_.loop(); }

  Connection& connection() { return connection_; }
  Transfers& transfers() { return transfers_; }
  ClientIdentity& identity() { return identity_; }
  Terms& terms() { return terms_; }
  Refusals& refusals() { return refusals_; }
  Channels& channels() { return channels_; }
  GssRounds& gss() { return gss_; }
  PasswordCheck& password() { return password_; }
  Requests& requests() { return requests_; }
  Traffic& traffic() { return traffic_; }
  RateMeter& rate() { return rate_; }
  HolderWaits& holder_waits() { return holder_waits_; }
  // Whether responses say to the client that all promises to it have ended.
  bool IsVoid();
  // The batches of this session. Null until a procedure sets them.
  PendingWork* pending_work() { return pending_work_.get(); }
  void set_pending_work(std::unique_ptr<PendingWork> work) { pending_work_ = std::move(work); }

 private:
  void OnCompletion(const dat::Completion& completion);
  void OnStalled(uint32_t operations);
  void OnDisconnected(const absl::Status& why);
  void LogEnd();

  Worker& worker_;
  const Shared shared_;
  const SessionTable::Place place_;
  const absl::Time since_ = Loop::Now();
  Traffic traffic_;
  RateMeter rate_{since_};
  Connection connection_;
  Transfers transfers_;
  ClientIdentity identity_;
  Terms terms_;
  Refusals refusals_;
  Channels channels_;
  GssRounds gss_;
  PasswordCheck password_;
  Requests requests_;
  HolderWaits holder_waits_;
  std::unique_ptr<PendingWork> pending_work_;
  bool forgotten_ = false;  // the worker was notified
};

}  // namespace dafs::server
