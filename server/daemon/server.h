// A DAFS server: `dafsd` without its command line, usable in process by tests.
// Spec: 3.1, 3.2, chapter 6; WIRE; docs/decisions.md, Server.
//
// Start opens the exports, starts the threads and listens. Stop (and the destructor) ends all
// sessions and joins all threads. One thread calls all of these. The program must prepare its
// process (PrepareProcess): umask 0, many descriptors, SIGPIPE ignored.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/loop/cpu_latency.h"
#include "server/clients/client_records.h"
#include "server/clients/client_table.h"
#include "server/clients/options.h"
#include "server/clients/response_cache.h"
#include "server/daemon/server_directives.h"
#include "server/daemon/server_pools.h"
#include "server/session/shared/credit.h"
#include "server/session/shared/refusal_log.h"
#include "server/session/shared/session_table.h"
#include "server/store/store.h"
#include "wire/dat/dat.h"
#include "wire/messages/server_identity.h"

namespace dafs::server {

class Acceptor;
class Administration;
class AdminSocket;
class AuditLog;
class JournalRecovery;
class StateLock;
class TlsRefusals;
struct Shared;
struct UnknownOutcomes;
class Worker;

class Server {
 public:
  // The transports for options.listen; borrowed. A transport that is not used may be null.
  struct Providers {
    dat::Provider* tcp = nullptr;
    dat::Provider* rdma = nullptr;
    TlsRefusals* tls_refusals = nullptr;  // gets the audit log; null: none
  };

  // Serves when it returns. Exports whose file system does not answer within options.open_within
  // are served later. Errors name the cause and the remedy: kInvalidArgument (options),
  // kFailedPrecondition (an export, another server on the state directory), kPermissionDenied (not
  // root), kUnavailable (cannot listen on an address).
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options,
                                                       const Providers& providers);
  // The same for a standby, which has waited for the lock on the state directory.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options,
                                                       const Providers& providers,
                                                       std::unique_ptr<StateLock> lock);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Waits for the requests that are being executed, at most `within`. Returns false if that was too
  // short, for example because a file system hangs. Then the log names what hangs, every session
  // has been aborted, no connection is accepted, and threads still run. Only _exit(2) ends the
  // process then. The state directory is as after a kill: clients lose nothing that was
  // acknowledged.
  bool Stop(absl::Duration within = absl::InfiniteDuration());

  // Reads the exports again (options.read_exports) and serves them from now on, without an effect
  // on sessions and on other exports. Opens the file of the audit log again. Returns what has
  // changed, as text; logs it, too. `by`: the user who requested it, logged. On an error nothing
  // has changed; the message names the place and the remedy. Waits at most options.open_within for
  // the file systems of new exports. Thread-safe; not during Stop.
  absl::StatusOr<std::string> Reload(std::string_view by);
  // Ends all references, and the channels on which clients read by them. Clients bind new ones if
  // they still may. Thread-safe; not during Stop.
  void EndReferenceChannels();

  // The addresses it listens on, in the order of options.listen, with the ports that the system
  // chose.
  const std::vector<ListenAddress>& bound() const { return bound_; }
  const ServerOptions& options() const { return options_; }
  const StateLock& state_lock() const { return *state_lock_; }

  // For statistics and tests. Thread-safe.
  size_t connections() const { return sessions_.connections(); }
  size_t clients() const { return clients_.count(); }
  size_t message_bytes() const { return budget_.used_bytes(); }
  size_t response_cache_bytes() const { return responses_->bytes(); }
  size_t open_count() const { return store_->inventory().open_count(); }

 private:
  explicit Server(ServerOptions options);
  absl::Status Begin(const Providers& providers);
  absl::Status LoadRecords();
  absl::Status OpenStore();
  absl::Status LoadIdentity();
  void StartGrace(UnknownOutcomes unknown, const std::vector<size_t>& late);
  absl::Duration GraceTime() const;
  bool AwaitIdle(absl::Time deadline);
  void SayWhatHangs() const;
  absl::Status StartAdmin(const Shared& shared);
  absl::Status Listen(const Providers& providers,
                      std::vector<std::unique_ptr<dat::Listener>>* listeners);

  const ServerOptions options_;
  std::unique_ptr<AuditLog> audit_;  // outlives all that writes to it; null: there is none
  std::vector<ListenAddress> bound_;
  std::unique_ptr<StateLock> state_lock_;
  std::unique_ptr<JournalRecovery> recovery_;  // outlives the store, whose threads use it
  std::unique_ptr<Store> store_;
  std::unique_ptr<ClientRecords> records_;  // outlives clients and store
  ClientTable clients_;
  ServerDirectives directives_;  // outlive the sessions
  wire::ServerIdentityRes identity_;
  SessionTable sessions_;
  std::unique_ptr<ResponseCache> responses_;  // outlives the sessions
  CreditBudget budget_;
  RefusalLog refusals_;
  std::unique_ptr<CpuLatency> cpu_latency_;  // outlives the workers; null: none
  ServerPools pools_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Administration> administration_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<AdminSocket> admin_;
};

// umask 0, RLIMIT_NOFILE raised to its hard limit, SIGPIPE ignored.
void PrepareProcess();

}  // namespace dafs::server
