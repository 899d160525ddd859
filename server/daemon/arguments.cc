#include "server/daemon/arguments.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"
#include "server/admin/admin_socket.h"
#include "wire/protocol/limits.h"

namespace dafs::server {
namespace {

// Exports and addresses.
void DeclareExports(CLI::App& app, Arguments& arguments) {
  app.add_option("--export", arguments.exports,
                 "/NAME=DIR[,ro|rw][,root_squash|no_root_squash|all_squash][,anonuid=N]"
                 "[,anongid=N][,secure|insecure][,clients=CIDR ...]"
                 "[,xprtsec=none:tls:mtls][,certs=NAME ...][,sec=sys:krb5:krb5p:text]"
                 "[,principals=NAME@REALM ...][,handles=lasting]"
                 "[,failover=HOST[:PORT]:/NAME ...]"
                 "[,changed_by=clients|anyone]: "
                 "serve DIR under /NAME")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--listen", arguments.listen,
                 "tcp:ADDR[:PORT] or rdma:ADDR[:PORT]; without it, loopback only, port 20149")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// Certificates, keys and passwords.
void DeclareAuthentication(CLI::App& app, Config& config) {
  app.add_option("--tls-cert", config.server.tls.cert_file,
                 "the server's certificate with its chain (PEM); TCP connections may then use TLS");
  app.add_option("--tls-key", config.server.tls.key_file,
                 "its private key (PEM), which only its owner may read");
  app.add_option("--tls-ca", config.server.tls.ca_file,
                 "CAs of the certificates of clients (PEM), for xprtsec=mtls");
  app.add_option("--keytab", config.keytab,
                 "the server's Kerberos keys, of dafs/HOST; without it, the file of KRB5_KTNAME");
  app.add_option("--trusted", config.server.trusted,
                 "a principal that acts for any user, as NAME@REALM; * stands for any part")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
      "--id-domain", config.id_domain,
      "owners and groups are NAME@DOMAIN on the wire, by idmapd.conf(5); default: numbers");
  app.add_option(
      "--password-file", config.server.password_file,
      "names and hashes of passwords, for exports with sec=text over TLS; only its owner "
      "may read it");
}

// The process: its files, its log, its audit.
void DeclareProcess(CLI::App& app, Config& config, Arguments& arguments) {
  app.add_option("--state-dir", config.server.state_dir,
                 "directory for state that must survive a restart");
  app.add_option("--cluster-id", config.server.cluster_id,
                 "a name that servers of the same files share; default: the id of this server");
  app.add_flag("--standby", config.standby,
               "wait while another dafsd uses the state directory, then take over");
  app.add_option("--config", arguments.config,
                 "a file with these options, one `key = value` per line");
  app.add_option("--pid-file", config.pid_file, "default: dafsd.pid in the state directory");
  app.add_option("--admin-socket", arguments.admin_socket,
                 "the socket for dafsctl server, or none; default: /run/dafs/dafsd.sock for root");
  app.add_flag("--foreground,-f", config.foreground, "stay in the foreground, log to stderr");
  app.add_flag("--verbose,-v", config.verbose, "log more");
  app.add_option("--audit", config.server.audit.destination,
                 "a file for records of what clients and administrators do, or syslog");
  app.add_option("--audit-classes", arguments.audit_classes,
                 "what is recorded: auth,open,change,acl,deny,admin, or all; default: "
                 "auth,acl,deny,admin");
  app.add_option(
         "--confine", arguments.confine,
         "on (default): drop capabilities and refuse system calls that a server does not need; "
         "off: keep them")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--slow-log", arguments.slow_ms,
                 "log requests that take this many milliseconds; 0: none");
}

// Threads, and how they wait.
void DeclareThreads(CLI::App& app, ServerOptions& s, Arguments& arguments) {
  app.add_option("--threads", s.workers, "worker threads; 0: one per CPU, at most 16");
  app.add_option("--disk-threads", s.pool_threads, "threads for requests that wait for a disk");
  app.add_option("--spin", arguments.spin_us, "microseconds that a worker polls before it sleeps");
  app.add_option(
      "--cpu-latency", arguments.cpu_latency,
      "microseconds that an idle CPU may take to wake while a worker is busy, or auto, or "
      "off; auto: 0 in a KVM guest with haltpoll and 2 to 8 CPUs, otherwise off");
}

// Limits of a session, a client and the server.
void DeclareLimits(CLI::App& app, ServerOptions& s, Arguments& arguments) {
  app.add_option("--max-requests", s.max_requests, "outstanding requests of one session, at most");
  app.add_option("--max-request-size", s.max_message_bytes,
                 "bytes of one request or response, at most");
  app.add_option("--max-transfer-size", s.max_transfer_bytes,
                 "bytes of one read or write, at most");
  app.add_option("--max-batch-requests", s.max_batch_requests,
                 "outstanding reads and writes in asynchronous batches of one session, at most");
  app.add_option("--max-credentials", s.max_credentials, "registered users of one client, at most");
  app.add_option("--rdma-read-channel", arguments.rdma_read_channel,
                 "use a separate channel to read client memory: never, offered, required")
      ->check(CLI::IsMember({"never", "offered", "required"}));
  app.add_option("--max-sessions", s.max_sessions, "concurrent sessions, at most");
  app.add_option("--max-sessions-per-address", s.max_sessions_per_address,
                 "concurrent sessions from one address (IPv6: from one /64), at most");
  app.add_option("--message-memory", arguments.message_memory_mib,
                 "MiB for the messages of all sessions");
  app.add_option("--direct-memory", arguments.direct_memory_mib,
                 "MiB of RDMA buffers for each worker");
}

// State that survives the end of a session, the process or the machine.
void DeclareRecovery(CLI::App& app, Arguments& arguments) {
  app.add_option(
      "--stable", arguments.stable,
      "appends and response caches survive the end of the process (process) or a loss of "
      "power (power)");
  // For tests: server/store/system/kill_switch.h.
  app.add_option("--kill-at", arguments.kill_at)->group("");
  app.add_option("--response-cache", arguments.response_cache_mib,
                 "MiB of the state directory for the response caches of all sessions");
  app.add_option("--response-cache-time", arguments.response_cache_time_s,
                 "seconds that the response cache of a lost session is kept");
  app.add_option("--lease-time", arguments.lease_time_s,
                 "seconds that a silent client keeps its opens");
  app.add_option("--grace-time", arguments.grace_time_s,
                 "seconds after a restart in which clients reclaim; 0: the lease time");
  app.add_option(
      "--undo-space", arguments.undo_space_mib,
      "MiB of old bytes that are kept to undo changes under auto-recovery locks; 0: there "
      "are no such locks");
}

// Limits of the caches of clients.
void DeclareCaching(CLI::App& app, ServerOptions& s, Arguments& arguments) {
  app.add_option("--export-cache", arguments.export_cache_mib,
                 "MiB for each export from which libdafs programs read without a request; 0: none");
  app.add_option("--promises", s.max_promises,
                 "promises of exact caching to one client, at most; 0: none");
  app.add_option("--delegations", arguments.delegations,
                 "which delegations of files clients may get: none, read, write (both)")
      ->check(CLI::IsMember({"none", "read", "write"}));
  app.add_option("--max-delegations", s.delegations.of_client,
                 "delegations of one client, at most");
  app.add_option("--recall-time", arguments.recall_time_s,
                 "seconds that a request waits for a client whose cache it affects");
}

absl::Status ConvertAddresses(const Arguments& arguments, ServerOptions& server) {
  for (const std::string& text : arguments.exports) {
    ASSIGN_OR_RETURN(Export parsed, ParseExport(text));
    server.exports.push_back(std::move(parsed));
  }
  for (const std::string& text : arguments.listen) {
    ASSIGN_OR_RETURN(ListenAddress parsed, ParseListen(text));
    server.listen.push_back(std::move(parsed));
  }
  return absl::OkStatus();
}

absl::Status ConvertProcess(const Arguments& arguments, Config& config) {
  if (!arguments.audit_classes.empty()) {
    ASSIGN_OR_RETURN(config.server.audit.classes, ParseAuditClasses(arguments.audit_classes));
  }
  const std::string& cluster_id = config.server.cluster_id;
  if (cluster_id.size() > wire::kClusterIdBound.max_bytes ||
      !std::all_of(cluster_id.begin(), cluster_id.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(absl::StrCat("--cluster-id: at most ",
                                                   wire::kClusterIdBound.max_bytes,
                                                   " printable ASCII characters without a space"));
  }
  config.confine = arguments.confine == "on";
  if (arguments.slow_ms > 3600000) return absl::InvalidArgumentError("--slow-log: at most 3600000");
  config.server.slow = absl::Milliseconds(arguments.slow_ms);
  if (arguments.admin_socket.empty()) {
    config.server.is_admin_socket_default = true;
    if (geteuid() == 0) config.server.admin_socket = kDefaultAdminSocket;
  } else if (arguments.admin_socket != "none") {
    config.server.admin_socket = arguments.admin_socket;
  }
  return absl::OkStatus();
}

absl::Status ConvertThreads(const Arguments& arguments, ServerOptions& server) {
  if (arguments.spin_us > 10000)
    return absl::InvalidArgumentError("--spin: 0 to 10000 microseconds");
  server.spin = absl::Microseconds(arguments.spin_us);
  absl::StatusOr<CpuLatencyOption> cpu_latency = ParseCpuLatency(arguments.cpu_latency);
  if (!cpu_latency.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--cpu-latency ", arguments.cpu_latency, ": ",
                                                   cpu_latency.status().message()));
  }
  server.cpu_latency = *cpu_latency;
  return absl::OkStatus();
}

absl::Status ConvertSizes(const Arguments& arguments, ServerOptions& server) {
  if (arguments.message_memory_mib > (size_t{1} << 30) ||
      arguments.direct_memory_mib > (size_t{1} << 30) ||
      arguments.response_cache_mib > (size_t{1} << 30) ||
      arguments.undo_space_mib > (uint64_t{1} << 30) ||
      arguments.export_cache_mib > (uint64_t{1} << 30)) {
    return absl::InvalidArgumentError(
        "--message-memory, --direct-memory, --response-cache, --undo-space and --export-cache are "
        "in MiB");
  }
  server.message_memory_bytes = arguments.message_memory_mib << 20;
  server.direct_memory_bytes = arguments.direct_memory_mib << 20;
  server.response_cache_bytes = arguments.response_cache_mib << 20;
  server.undo_space_bytes = arguments.undo_space_mib << 20;
  server.export_cache_bytes = arguments.export_cache_mib << 20;
  const uint64_t memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  if (server.export_cache_bytes > memory_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--export-cache ", arguments.export_cache_mib, ": this machine has ",
                     memory_bytes >> 20, " MiB of memory, and each export takes as much"));
  }
  return absl::OkStatus();
}

absl::Status ConvertTimes(const Arguments& arguments, ServerOptions& server) {
  if (!(arguments.response_cache_time_s >= 1 && arguments.response_cache_time_s <= 31536000)) {
    return absl::InvalidArgumentError("--response-cache-time: 1 to 31536000 seconds");
  }
  server.response_cache_time = absl::Seconds(arguments.response_cache_time_s);
  if (!(arguments.lease_time_s >= 1 && arguments.lease_time_s <= 86400)) {
    return absl::InvalidArgumentError("--lease-time: 1 to 86400 seconds");
  }
  server.lease_time = absl::Seconds(arguments.lease_time_s);
  if (!(arguments.grace_time_s >= 0 && arguments.grace_time_s <= 86400)) {
    return absl::InvalidArgumentError("--grace-time: 0 to 86400 seconds");
  }
  server.grace_time = absl::Seconds(arguments.grace_time_s);
  if (!(arguments.recall_time_s >= 1 && arguments.recall_time_s <= kMostRecallSeconds)) {
    return absl::InvalidArgumentError("--recall-time: 1 to 60 seconds");
  }
  server.recall_time = absl::Seconds(arguments.recall_time_s);
  return absl::OkStatus();
}

absl::Status ConvertChoices(const Arguments& arguments, ServerOptions& server) {
  if (arguments.stable != "process" && arguments.stable != "power") {
    return absl::InvalidArgumentError("--stable: process or power");
  }
  server.stable = arguments.stable == "power" ? Stable::kPower : Stable::kProcess;
  server.rdma_read_channel = arguments.rdma_read_channel == "never" ? RdmaReadChannel::kNever
                             : arguments.rdma_read_channel == "required"
                                 ? RdmaReadChannel::kRequired
                                 : RdmaReadChannel::kOffered;
  using Type = Delegations::Type;
  server.delegations.most = arguments.delegations == "none"   ? Type::kNone
                            : arguments.delegations == "read" ? Type::kRead
                                                              : Type::kWrite;
  return absl::OkStatus();
}

}  // namespace

void DeclareOptions(CLI::App& app, Config& config, Arguments& arguments) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  DeclareExports(app, arguments);
  DeclareAuthentication(app, config);
  DeclareProcess(app, config, arguments);
  DeclareThreads(app, config.server, arguments);
  DeclareLimits(app, config.server, arguments);
  DeclareRecovery(app, arguments);
  DeclareCaching(app, config.server, arguments);
  app.set_version_flag("--version", "dafsd 0.1.0");
}

absl::Status ConvertOptions(const Arguments& arguments, Config& config) {
  RETURN_IF_ERROR(ConvertAddresses(arguments, config.server));
  RETURN_IF_ERROR(ConvertSizes(arguments, config.server));
  RETURN_IF_ERROR(ConvertThreads(arguments, config.server));
  RETURN_IF_ERROR(ConvertProcess(arguments, config));
  const AuditOptions& audit = config.server.audit;
  if (config.server.export_cache_bytes > 0 && !audit.destination.empty() &&
      (audit.classes & SetOf(AuditClass::kOpen)) != 0) {
    return absl::InvalidArgumentError(
        "--export-cache: --audit with the class open cannot count reads without a request; leave "
        "out one of the two");
  }
  RETURN_IF_ERROR(ConvertTimes(arguments, config.server));
  return ConvertChoices(arguments, config.server);
}

absl::StatusOr<ListenAddress> ParseListen(const std::string& text) {
  ListenAddress listen;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "tcp:")) {
    listen.transport = Transport::kTcp;
  } else if (absl::ConsumePrefix(&rest, "rdma:")) {
    listen.transport = Transport::kRdma;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", text, ": give tcp:ADDR:PORT or rdma:ADDR:PORT"));
  }
  std::string host;
  uint16_t port = dat::kDefaultPort;
  absl::Status split = dat::SplitHostPort(Std(rest), &host, &port);
  if (!split.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--listen ", text, ": ", split.message()));
  }
  auto addresses = dat::ResolveHost(host, port);
  if (!addresses.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", text, ": ", addresses.status().message()));
  }
  listen.address = addresses->front();
  return listen;
}

}  // namespace dafs::server
