// dafsd: serves directories over DAFS. See man/dafsd.8. Exit status: 0 was stopped by a signal, or
// became a daemon that serves; 1 could not start; 2 bad options. SIGTERM and SIGINT stop the
// server; SIGHUP makes it read its exports and
// certificates again.
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/files/installed_file.h"
#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/daemon/config.h"
#include "server/daemon/config_parser.h"
#include "server/daemon/confinement.h"
#include "server/daemon/daemon.h"
#include "server/daemon/passed_sockets.h"
#include "server/daemon/server.h"
#include "server/daemon/standby.h"
#include "server/daemon/state_watch.h"
#include "server/daemon/stop_signals.h"
#include "server/daemon/tls_refusals.h"
#include "wire/auth/gss/kerberos.h"
#include "wire/auth/idmap/id_map.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/tls/openssl_tls.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::server {
namespace {

int Fail(const absl::Status& status, int code) {
  LogFailure("dafsd", std::string(status.message()));
  return code;
}

// A daemon changes its directory, so paths of the command line are made absolute first.
void MakeAbsolute(std::string& path) {
  if (path.empty() || path[0] == '/') return;
  char current[PATH_MAX];
  if (getcwd(current, sizeof(current)) != nullptr) path = absl::StrCat(current, "/", path);
}

// How long a stop waits for file systems. They answer within this time unless they hang. A service
// manager and its operator wait longer.
constexpr absl::Duration kStopWithin = absl::Seconds(5);

// Sets options.reload_tls if the server has certificates.
absl::StatusOr<std::unique_ptr<dat::Provider>> NewTcpProvider(ServerOptions& options,
                                                              std::vector<UniqueFd> sockets,
                                                              TlsRefusals& refusals) {
  dat::IwarpOptions tcp;
  if (!options.tls.cert_file.empty()) {
    ASSIGN_OR_RETURN(tcp.tls, dat::NewTls(options.tls));
    options.reload_tls = [tls = tcp.tls] { return tls->Reload(); };
  }
  tcp.on_tls_refused = [&refusals](const dat::Address& peer, const absl::Status& why) {
    refusals.Say(peer, why);
  };
  return dat::NewIwarpProvider(tcp, std::move(sockets));
}

// Sets options.acceptor if the server has Kerberos keys.
absl::Status AcceptKerberos(const Config& config, ServerOptions& options) {
  const char* environment = getenv("KRB5_KTNAME");
  const std::string keytab =
      config.keytab.empty() && environment != nullptr ? environment : config.keytab;
  if (keytab.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(options.acceptor,
                   auth::NewKerberosAcceptor({.keytab = keytab,
                                              .replay_cache = absl::StrCat(
                                                  "file2:", options.state_dir, "/krb5-replays")}));
  return absl::OkStatus();
}

// Sets options.ids if the server has an ID-mapping domain. Call it before Confine, which forbids to
// start programs.
absl::Status MapIds(const Config& config, ServerOptions& options) {
  if (config.id_domain.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string helper, FindInstalledFile("dafs-idmap", "--id-domain"));
  options.ids = std::make_shared<auth::IdMap>(
      auth::IdMapOptions{.helper = std::move(helper), .domain = config.id_domain});
  return options.ids->Start();
}

int Serve(Config& config, std::vector<UniqueFd> sockets, std::optional<Daemon>& daemon,
          const StopSignals& stop) {
  TlsRefusals tls_refusals;
  absl::StatusOr<std::unique_ptr<dat::Provider>> tcp =
      NewTcpProvider(config.server, std::move(sockets), tls_refusals);
  if (!tcp.ok()) return Fail(tcp.status(), 1);
  if (absl::Status status = AcceptKerberos(config, config.server); !status.ok()) {
    return Fail(status, 1);
  }
  std::unique_ptr<dat::Provider> rdma = dat::NewVerbsProvider();
  const auto detach = [&config, &daemon] {
    if (!daemon) return;
    LogToSyslog("dafsd", config.verbose ? Severity::kDebug : Severity::kInfo);
    daemon->Ready();
    daemon.reset();
  };
  absl::StatusOr<std::unique_ptr<Server>> server;
  {
    const StopSignals::EndProcess meanwhile(stop);
    std::unique_ptr<StateLock> lock;
    if (config.standby) {
      absl::StatusOr<std::unique_ptr<StateLock>> turn = AwaitTurn(config.server, [&detach] {
        detach();
        NotifyServiceManager("READY=1\nSTATUS=standby: waits for the state directory");
      });
      if (!turn.ok()) return Fail(turn.status(), 1);
      lock = *std::move(turn);
    }
    server = Server::Start(config.server,
                           {.tcp = tcp->get(), .rdma = rdma.get(), .tls_refusals = &tls_refusals},
                           std::move(lock));
  }
  if (!server.ok()) {
    // A standby that is a daemon has no standard error any more.
    if (config.standby && !config.foreground) {
      LogError(absl::StrCat("cannot take over: ", server.status().message()));
    }
    return Fail(server.status(), 1);
  }
  const std::unique_ptr<StateWatch> state_watch =
      StateWatch::For((*server)->state_lock(), config.server.state_dir, EndAtOnce);
  std::unique_ptr<PidFile> pid_file;
  absl::Status written = PidFile::Write(config.pid_file, &pid_file);
  if (!written.ok()) return Fail(written, 1);
  detach();
  for (const ListenAddress& at : (*server)->bound()) {
    LogNotice(
        absl::StrCat("serving ", config.server.exports.size(), " exports on ",
                     at.transport == Transport::kTcp ? "tcp:" : "rdma:", at.address.ToString()));
  }
  NotifyServiceManager(config.standby ? "READY=1\nSTATUS=serves" : "READY=1");
  int signal = 0;
  // Reload logs what it has changed, and why it could not.
  while ((signal = stop.Wait()) == SIGHUP) static_cast<void>((*server)->Reload("SIGHUP"));
  LogNotice(absl::StrCat("stopping: signal ", signal));
  if ((*server)->Stop(kStopWithin)) return 0;
  pid_file.reset();
  _exit(0);
}

// Lets a reload read the file of --config again. A line that is not an export and has changed takes
// effect at the next start, which is logged.
void ReadExportsAgain(const std::vector<std::string>& arguments, ServerOptions& options) {
  std::vector<std::string> others;
  if (!ReadExports(arguments, &others).ok()) return;  // the start reports that
  options.read_exports = [arguments, others]() -> absl::StatusOr<std::vector<Export>> {
    std::vector<std::string> now;
    ASSIGN_OR_RETURN(std::vector<Export> exports, ReadExports(arguments, &now));
    if (now != others) {
      LogWarning("reload: options besides exports have changed; restart dafsd to use these");
    }
    return exports;
  };
  options.place_export = [arguments](std::string_view message) {
    return WithPlaceOfExport(arguments, message);
  };
}

int Main(std::vector<std::string> arguments) {
  absl::StatusOr<Config> config = ParseConfig(arguments);
  if (!config.ok()) return Fail(config.status(), 2);
  if (!config->answer.empty()) {
    std::fputs(config->answer.c_str(), stdout);
    return 0;
  }
  // Before the fork: they are for this process.
  absl::StatusOr<std::vector<UniqueFd>> sockets = TakePassedSockets(config->server.listen);
  if (!sockets.ok()) return Fail(sockets.status(), 1);
  if (config->standby && !sockets->empty()) {
    return Fail(absl::InvalidArgumentError("--standby: a service manager has passed a listening "
                                           "socket, at which clients would wait without an "
                                           "answer; give --listen instead"),
                2);
  }
  MakeConfigAbsolute(arguments);
  ReadExportsAgain(arguments, config->server);
  MakeAbsolute(config->server.state_dir);
  MakeAbsolute(config->pid_file);
  MakeAbsolute(config->server.tls.cert_file);
  MakeAbsolute(config->server.tls.key_file);
  MakeAbsolute(config->server.tls.ca_file);
  MakeAbsolute(config->keytab);
  MakeAbsolute(config->server.password_file);
  MakeAbsolute(config->server.admin_socket);
  if (config->server.audit.destination != kAuditToSyslog) {
    MakeAbsolute(config->server.audit.destination);
  }
  PrepareProcess();
  EndAtLostMemory();
  const StopSignals stop;
  LogToStderr("dafsd", config->verbose ? Severity::kDebug : Severity::kInfo);
  std::optional<Daemon> daemon;
  if (!config->foreground) daemon.emplace(Daemon::Fork());
  if (absl::Status status = MapIds(*config, config->server); !status.ok()) return Fail(status, 1);
  if (config->confine) {
    if (absl::Status confined = Confine(); !confined.ok()) return Fail(confined, 1);
  }
  return Serve(*config, *std::move(sockets), daemon, stop);
}

}  // namespace
}  // namespace dafs::server

int main(int argc, char** argv) {
#ifdef NDEBUG
  // Debian's Abseil searches for a lock cycle at each lock, which only tests need.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  return dafs::server::Main(std::vector<std::string>(argv + 1, argv + argc));
}
