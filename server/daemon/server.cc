#include "server/daemon/server.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/admin/admin_socket.h"
#include "server/audit/audit_log.h"
#include "server/clients/recovery.h"
#include "server/clients/state_lock.h"
#include "server/daemon/acceptor.h"
#include "server/daemon/administration.h"
#include "server/daemon/checked_options.h"
#include "server/daemon/tls_refusals.h"
#include "server/procedures/procedures.h"
#include "server/session/worker.h"
#include "server/store/access/exports/export_threads.h"
#include "server/store/access/promise_ends.h"
#include "server/store/durable/state_dir_check.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/parts/export_directories.h"
#include "server/store/system/server_id.h"
#include "server/store/system/state_dir.h"

namespace dafs::server {

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      clients_(
          {.max_credentials = options_.max_credentials,
           .default_credentials = std::min(options_.default_credentials, options_.max_credentials),
           .lease_time = options_.lease_time}),
      sessions_(options_.max_sessions, options_.max_sessions_per_address),
      budget_(options_.message_memory_bytes) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options,
                                                      const Providers& providers) {
  return Start(std::move(options), providers, nullptr);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options,
                                                      const Providers& providers,
                                                      std::unique_ptr<StateLock> lock) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<Server> server(new Server(CompleteOptions(std::move(options))));
  server->state_lock_ = std::move(lock);
  absl::Status status = server->Begin(providers);
  if (status.ok()) return server;
  // Threads that wait for a file system use the server until the process ends.
  if (!server->Stop(absl::Seconds(1))) static_cast<void>(server.release());
  return status;
}

absl::Status Server::Begin(const Providers& providers) {
  const ServerOptions& o = options_;
  RETURN_IF_ERROR(CheckStateDir(o.state_dir));
  if (!o.audit.destination.empty()) {
    ASSIGN_OR_RETURN(audit_, AuditLog::Open(o.audit));
    if (providers.tls_refusals != nullptr) providers.tls_refusals->SetAudit(audit_.get());
  }
  if (state_lock_ == nullptr) {
    ASSIGN_OR_RETURN(state_lock_, StateLock::Acquire(o.state_dir));
  }
  RETURN_IF_ERROR(LoadRecords());
  // All threads start before the first request, so they inherit the server's own identity.
  Store::RestoreServerIdentity();
  if (o.ids != nullptr) {
    o.ids->StartThread();
    // A helper that cannot work is an error of the start. root is in the first database.
    if (const absl::Status works = o.ids->Name(auth::IdKind::kUser, 0).status();
        absl::IsUnavailable(works)) {
      return absl::FailedPreconditionError(absl::StrCat("--id-domain: ", works.message()));
    }
  }
  pools_.Start(o.pool_threads, o.exports.size() + ExportSet::kRoom, !o.password_file.empty());
  RETURN_IF_ERROR(OpenStore());
  RETURN_IF_ERROR(LoadIdentity());
  administration_ = std::make_unique<Administration>(Administration::Uses{.options = options_,
                                                                          .store = *store_,
                                                                          .clients = clients_,
                                                                          .workers = workers_,
                                                                          .audit = audit_.get()});
  directives_.recalls = std::make_unique<Recalls>(*store_, *directives_.callbacks, *pools_.chores(),
                                                  options_.recall_time);
  std::string said;
  cpu_latency_ = CpuLatency::For(o.cpu_latency, IdleFactsOfMachine(), CpuLatency::kDevice, &said);
  const bool in_vain = o.cpu_latency.wanted.value_or(false) && cpu_latency_ == nullptr;
  Log(in_vain ? Severity::kWarning : Severity::kInfo, said);
  const Shared shared{.options = &o,
                      .procedures = &kProcedureTable,
                      .store = store_.get(),
                      .pool = pools_.requests(),
                      .chores = pools_.chores(),
                      .passwords = pools_.passwords(),
                      .export_pools = pools_.exports(),
                      .clients = &clients_,
                      .callbacks = directives_.callbacks.get(),
                      .lock_announcer = directives_.lock_announcer.get(),
                      .recalls = directives_.recalls.get(),
                      .sessions = &sessions_,
                      .responses = responses_.get(),
                      .budget = &budget_,
                      .refusals = &refusals_,
                      .identity = &identity_,
                      .workers = &workers_,
                      .ids = o.ids.get(),
                      .cpu_latency = cpu_latency_.get(),
                      .audit = audit_.get()};
  for (uint32_t i = 0; i < o.workers; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker, Worker::Start(shared));
    workers_.push_back(std::move(worker));
  }
  directives_.callbacks->Start(workers_.front()->loop());
  directives_.recalls->Start(workers_.front()->loop());
  // A client may connect from here on. Until then it is refused and tries its next path, instead of
  // waiting for a server that may not start. A socket of the service manager listens already.
  std::vector<std::unique_ptr<dat::Listener>> listeners;
  RETURN_IF_ERROR(Listen(providers, &listeners));
  RETURN_IF_ERROR(StartAdmin(shared));  // before clients are accepted, because it may fail
  AuditAdministration(audit_.get(), "START", "", "serves");
  ASSIGN_OR_RETURN(acceptor_, Acceptor::Start(shared, workers_, std::move(listeners)));
  return absl::OkStatus();
}

absl::Status Server::StartAdmin(const Shared& shared) {
  if (options_.admin_socket.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<AdminSocket>> started = AdminSocket::Start(
      options_.admin_socket,
      {.shared = shared,
       .bound = &bound_,
       .since = Loop::Now(),
       .reload = [this](std::string_view by) { return administration_->Reload(by); },
       .move = [this](const std::string& to,
                      std::string_view by) { administration_->AnnounceMove(to, by); }});
  if (started.ok()) {
    admin_ = *std::move(started);
    return absl::OkStatus();
  }
  const std::string why(started.status().message());
  if (!options_.is_admin_socket_default) {
    return absl::FailedPreconditionError(
        absl::StrCat("admin socket: ", why, "; name another with --admin-socket, or none"));
  }
  LogWarning(absl::StrCat("admin socket: ", why,
                          "; this dafsd cannot be queried; name another with --admin-socket"));
  return absl::OkStatus();
}

// Opens the response caches and the client records of an earlier instance. This comes before the
// store creates the filehandle key. So in a state directory with a key (HasServed) they must exist.
absl::Status Server::LoadRecords() {
  const bool has_served = HasServed(options_.state_dir);
  const bool stable = options_.stable == Stable::kPower;
  ASSIGN_OR_RETURN(responses_, ResponseCache::Open({.state_dir = options_.state_dir,
                                                    .max_bytes = options_.response_cache_bytes,
                                                    .keep_time = options_.response_cache_time,
                                                    .stable = stable,
                                                    .has_served = has_served},
                                                   Loop::Now()));
  ASSIGN_OR_RETURN(records_, ClientRecords::Open(options_.state_dir, stable, has_served));
  clients_.SetRecords(records_.get());
  return absl::OkStatus();
}

// Opens the exports, finishes the requests of an earlier instance, and starts the grace period of
// its clients.
absl::Status Server::OpenStore() {
  ASSIGN_OR_RETURN(store_, Store::Create(StoreOptionsOf(options_)));
  store_->promises().SetReturning(records_->Returning());
  directives_.callbacks = std::make_unique<Callbacks>(*store_, clients_, options_.recall_time);
  store_->promise_ends().SetSend(
      [callbacks = directives_.callbacks.get()](std::vector<Promises::Call> calls) {
        callbacks->Call(std::move(calls), nullptr);
      });
  directives_.lock_announcer = std::make_unique<LockAnnouncer>(*store_);
  clients_.SetOnExpired(
      [callbacks = directives_.callbacks.get()](const Client& client, bool is_gone) {
        if (is_gone) return callbacks->Forget(client.client_id(), client.promisee());
        callbacks->Expired(client.promisee());
      });
  store_->export_threads().SetRun(
      [pools = pools_.exports()](size_t index, absl::AnyInvocable<void()> work) {
        pools->Of(index).Submit(std::move(work));
      });
  recovery_ = std::make_unique<JournalRecovery>(
      *responses_, *store_, [this](size_t export_index, UnknownOutcomes unknown) {
        Grace::Owed owed;
        owed.doubts = std::move(unknown.doubts);
        owed.uncounted = std::move(unknown.opens);
        owed.unknown_opens = std::move(unknown.opened_in);
        store_->grace().Arrived(export_index, std::move(owed), Loop::Now() + GraceTime());
      });
  RETURN_IF_ERROR(store_->directories().OpenAll([this](size_t index) { recovery_->Settle(index); },
                                                options_.open_within));
  recovery_->Start([this](UnknownOutcomes unknown, const std::vector<size_t>& late) {
    StartGrace(std::move(unknown), late);
  });
  store_->EndGrace(Loop::Now());  // ends it if no client has anything to reclaim
  return absl::OkStatus();
}

absl::Status Server::LoadIdentity() {
  ASSIGN_OR_RETURN(identity_.server_id, LoadOrCreateServerId(options_.state_dir));
  identity_.instance = store_->instance();
  identity_.cluster_id = options_.cluster_id;
  if (identity_.cluster_id.empty()) identity_.cluster_id = wire::HexOf(identity_.server_id);
  return absl::OkStatus();
}

absl::Duration Server::GraceTime() const {
  return options_.grace_time > absl::ZeroDuration() ? options_.grace_time : options_.lease_time;
}

void Server::StartGrace(UnknownOutcomes unknown, const std::vector<size_t>& late) {
  Grace::Owed owed;
  owed.unknown = records_->Unknown();
  owed.doubts = std::move(unknown.doubts);
  owed.uncounted = std::move(unknown.opens);
  owed.unknown_opens = std::move(unknown.opened_in);
  for (const ClientRecords::Record& client : records_->Owed()) {
    // Counts one too many for a client that received the reply to its LOCKU. Its next request
    // corrects that.
    Holdings& held = *client.holdings;
    if (held.lost_locks > 0 && !held.owes_unknown()) {
      held.lost_locks += unknown.unlocks[client.client_id_string];
    }
    owed.expected.push_back({client.client_id_string, client.holdings, client.had_promises});
  }
  owed.on_partly_over = [records = records_.get()] { records->ExpireAbsent(); };
  const absl::Duration grace = GraceTime();
  if (owed.unknown != nullptr) {
    LogNotice(absl::StrCat("grace period of ", absl::FormatDuration(grace),
                           ": every client may reclaim what it had open"));
  } else if (!owed.expected.empty()) {
    LogNotice(absl::StrCat("grace period of at most ", absl::FormatDuration(grace), ": ",
                           owed.expected.size(), " clients may reclaim what they had open"));
  }
  store_->grace().Start(std::move(owed), Loop::Now() + grace, late);
}

absl::Status Server::Listen(const Providers& providers,
                            std::vector<std::unique_ptr<dat::Listener>>* listeners) {
  for (const ListenAddress& wanted : options_.listen) {
    dat::Provider* provider = wanted.transport == Transport::kTcp ? providers.tcp : providers.rdma;
    if (provider == nullptr) {
      return absl::InvalidArgumentError("this dafsd has no such transport; use tcp:ADDR:PORT");
    }
    auto listener = provider->Listen(wanted.address);
    if (!listener.ok()) {
      return absl::Status(
          listener.status().code(),
          absl::StrCat("listen on ", provider->name(), ":", wanted.address.ToString(), ": ",
                       listener.status().message()));
    }
    bound_.push_back({wanted.transport, (*listener)->local()});
    listeners->push_back(*std::move(listener));
  }
  return absl::OkStatus();
}

Server::~Server() { Stop(); }

bool Server::Stop(absl::Duration within) {
  if (options_.ids != nullptr) options_.ids->Stop();  // threads of the pool may wait for it
  admin_.reset();
  acceptor_.reset();
  for (auto& worker : workers_) worker->Shutdown();
  const absl::Time deadline = absl::Now() + within;
  const bool is_idle = AwaitIdle(deadline);
  if (!is_idle) SayWhatHangs();
  AuditAdministration(audit_.get(), "STOP", "",
                      is_idle ? "all requests have ended" : "some requests hang");
  if (audit_ != nullptr && !audit_->Stop(std::max(deadline, absl::Now() + absl::Seconds(1)))) {
    LogError("the audit log hangs: its last records are lost");
    return false;
  }
  if (!is_idle) return false;
  if (store_ != nullptr) store_->EndLeases();  // these begin recalls
  // The worker loops end last, because other workers and the pools post to them.
  pools_.Stop();
  workers_.clear();
  store_.reset();
  state_lock_.reset();
  return true;
}

absl::StatusOr<std::string> Server::Reload(std::string_view by) {
  return administration_->Reload(by);
}

void Server::EndReferenceChannels() { administration_->EndReferenceChannels(); }

// Waits in this order because each submits work to those after it.
bool Server::AwaitIdle(absl::Time deadline) {
  for (auto& worker : workers_) {
    if (!worker->AwaitEnd(deadline)) return false;
  }
  if (!pools_.AwaitIdle(deadline)) return false;
  if (store_ != nullptr) {
    store_->directories().EndOpening();
    if (!store_->directories().AwaitOpened(deadline)) return false;
  }
  return pools_.AwaitExportsIdle(deadline);
}

void Server::SayWhatHangs() const {
  const auto say = [](size_t requests, absl::string_view what) {
    if (requests == 0) return;
    LogWarning(absl::StrCat(what, ": no answer; dafsd ends without ", requests,
                            " of its requests, which clients send again"));
  };
  for (size_t i : store_->directories().Opening()) {
    const Export& exported = store_->exports()[i];
    LogWarning(absl::StrCat("export ", exported.name, "=", exported.directory,
                            ": not served since the start; dafsd ends without having served it"));
  }
  const std::vector<Pool*> pools = pools_.exports()->pools();
  for (size_t i = 0; i < store_->exports().size(); ++i) {
    const Export& exported = store_->exports()[i];
    say(pools[i] != nullptr ? pools[i]->unfinished() : 0,
        absl::StrCat("export ", exported.name, "=", exported.directory));
  }
  say(pools_.requests()->unfinished() + pools_.chores()->unfinished(),
      "the file system of another export");
}

void PrepareProcess() {
  umask(0);
  signal(SIGPIPE, SIG_IGN);
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
      LogWarning("the number of descriptors cannot be raised to its hard limit");
    }
  }
}

}  // namespace dafs::server
