#include "server/daemon/config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"
#include "server/admin/admin_socket.h"
#include "server/store/objects/principal_pattern.h"
#include "server/store/system/kill_switch.h"

namespace dafs::server {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    return absl::InvalidArgumentError(absl::StrCat("--config ", path, ": cannot be read"));
  }
  return text.str();
}

// The argument of --config, needed before the rest is parsed.
std::string ConfigPath(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--config" && i + 1 < arguments.size()) return arguments[i + 1];
    if (arguments[i].rfind("--config=", 0) == 0) return arguments[i].substr(9);
  }
  return "";
}

constexpr absl::string_view kExport = "--export=";

// Options as text, converted after all have been parsed.
struct Raw {
  std::vector<std::string> exports;
  std::vector<std::string> listen;
  std::string config;
  double lease_time_s = 90;
  double grace_time_s = 0;
  double recall_time_s = 10;
  std::string delegations = "write";
  double response_cache_time_s = 3600;
  std::string stable = "process";
  std::string kill_at;
  std::string admin_socket;
  size_t response_cache_mib = 256;
  uint64_t undo_space_mib = 1024;
  size_t message_memory_mib = 256;
  size_t direct_memory_mib = 32;
  uint32_t spin_us = 50;
  uint32_t slow_ms = 0;
  std::string audit_classes;
  std::string confine = "on";
  std::string cpu_latency = "auto";
  std::string rdma_read_channel = "offered";
};

void Declare(CLI::App& app, Config& config, Raw& raw) {
  ServerOptions& s = config.server;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--export", raw.exports,
                 "/NAME=DIR[,ro|rw][,root_squash|no_root_squash|all_squash][,anonuid=N]"
                 "[,anongid=N][,secure|insecure][,clients=CIDR ...]"
                 "[,xprtsec=none:tls:mtls][,certs=NAME ...][,sec=sys:krb5:krb5p]"
                 "[,principals=NAME@REALM ...][,handles=lasting]"
                 "[,changed_by=clients|anyone]: "
                 "serve DIR under /NAME")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--listen", raw.listen,
                 "tcp:ADDR[:PORT] or rdma:ADDR[:PORT]; without it, loopback only, port 20149")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--tls-cert", s.tls.cert_file,
                 "the server's certificate with its chain (PEM); TCP connections may then use TLS");
  app.add_option("--tls-key", s.tls.key_file,
                 "its private key (PEM), which only its owner may read");
  app.add_option("--tls-ca", s.tls.ca_file,
                 "CAs of the certificates of clients (PEM), for xprtsec=mtls");
  app.add_option("--keytab", config.keytab,
                 "the server's Kerberos keys, of dafs/HOST; without it, the file of KRB5_KTNAME");
  app.add_option("--trusted", s.trusted,
                 "a principal that acts for any user, as NAME@REALM; * stands for any part")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
      "--password-file", s.password_file,
      "names and hashes of passwords, for exports with sec=text over TLS; only its owner "
      "may read it");
  app.add_option("--state-dir", s.state_dir, "directory for state that must survive a restart");
  app.add_option("--config", raw.config, "a file with these options, one `key = value` per line");
  app.add_option("--pid-file", config.pid_file, "default: dafsd.pid in the state directory");
  app.add_option("--admin-socket", raw.admin_socket,
                 "the socket for dafsctl server, or none; default: /run/dafs/dafsd.sock for root");
  app.add_flag("--foreground,-f", config.foreground, "stay in the foreground, log to stderr");
  app.add_flag("--verbose,-v", config.verbose, "log more");
  app.add_option("--audit", s.audit.destination,
                 "a file for records of what clients and administrators do, or syslog");
  app.add_option("--audit-classes", raw.audit_classes,
                 "what is recorded: auth,open,change,acl,deny,admin, or all; default: "
                 "auth,acl,deny,admin");
  app.add_option("--confine", raw.confine,
                 "off: keep capabilities and system calls that a server does not need")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--slow-log", raw.slow_ms,
                 "log requests that take this many milliseconds; 0: none");
  app.add_option("--threads", s.workers, "worker threads; 0: one per CPU, at most 16");
  app.add_option("--disk-threads", s.pool_threads, "threads for requests that wait for a disk");
  app.add_option("--spin", raw.spin_us, "microseconds that a worker polls before it sleeps");
  app.add_option(
      "--cpu-latency", raw.cpu_latency,
      "microseconds that an idle CPU may take to wake while a worker is busy, or auto, or "
      "off; auto: 0 in a KVM guest with haltpoll and 2 to 8 CPUs, otherwise off");
  app.add_option("--max-requests", s.max_requests, "outstanding requests of one session, at most");
  app.add_option("--max-request-size", s.max_message_bytes,
                 "bytes of one request or response, at most");
  app.add_option("--max-transfer-size", s.max_transfer_bytes,
                 "bytes of one read or write, at most");
  app.add_option("--max-batch-requests", s.max_batch_requests,
                 "outstanding reads and writes in asynchronous batches of one session, at most");
  app.add_option("--max-credentials", s.max_credentials, "registered users of one client, at most");
  app.add_option("--rdma-read-channel", raw.rdma_read_channel,
                 "use a separate channel to read client memory: never, offered, required")
      ->check(CLI::IsMember({"never", "offered", "required"}));
  app.add_option("--max-sessions", s.max_sessions, "concurrent sessions, at most");
  app.add_option("--max-sessions-per-address", s.max_sessions_per_address,
                 "concurrent sessions from one address (IPv6: from one /64), at most");
  app.add_option("--message-memory", raw.message_memory_mib,
                 "MiB for the messages of all sessions");
  app.add_option("--direct-memory", raw.direct_memory_mib, "MiB of RDMA buffers for each worker");
  app.add_option(
      "--stable", raw.stable,
      "appends and response caches survive the end of the process (process) or a loss of "
      "power (power)");
  // For tests: server/store/system/kill_switch.h.
  app.add_option("--kill-at", raw.kill_at)->group("");
  app.add_option("--response-cache", raw.response_cache_mib,
                 "MiB of the state directory for the response caches of all sessions");
  app.add_option("--response-cache-time", raw.response_cache_time_s,
                 "seconds that the response cache of a lost session is kept");
  app.add_option("--lease-time", raw.lease_time_s, "seconds that a silent client keeps its opens");
  app.add_option("--grace-time", raw.grace_time_s,
                 "seconds after a restart in which clients reclaim; 0: the lease time");
  app.add_option(
      "--undo-space", raw.undo_space_mib,
      "MiB of old bytes that are kept to undo changes under auto-recovery locks; 0: there "
      "are no such locks");
  app.add_option("--promises", s.max_promises,
                 "promises of exact caching to one client, at most; 0: none");
  app.add_option("--delegations", raw.delegations,
                 "which delegations of files clients may get: none, read, write (both)")
      ->check(CLI::IsMember({"none", "read", "write"}));
  app.add_option("--max-delegations", s.delegations.of_client,
                 "delegations of one client, at most");
  app.add_option("--recall-time", raw.recall_time_s,
                 "seconds that a request waits for a client that caches what it concerns");
  app.set_version_flag("--version", "dafsd 0.1.0");
}

// Checks each value and stores it in `config`.
absl::Status Convert(const Raw& raw, Config& config) {
  for (const std::string& text : raw.exports) {
    ASSIGN_OR_RETURN(Export parsed, ParseExport(text));
    config.server.exports.push_back(std::move(parsed));
  }
  for (const std::string& text : raw.listen) {
    ASSIGN_OR_RETURN(ListenAddress parsed, ParseListen(text));
    config.server.listen.push_back(std::move(parsed));
  }
  if (raw.message_memory_mib > (size_t{1} << 30) || raw.direct_memory_mib > (size_t{1} << 30) ||
      raw.response_cache_mib > (size_t{1} << 30) || raw.undo_space_mib > (uint64_t{1} << 30)) {
    return absl::InvalidArgumentError(
        "--message-memory, --direct-memory, --response-cache and --undo-space are in MiB");
  }
  config.server.message_memory_bytes = raw.message_memory_mib << 20;
  config.server.direct_memory_bytes = raw.direct_memory_mib << 20;
  if (raw.spin_us > 10000) return absl::InvalidArgumentError("--spin: 0 to 10000 microseconds");
  config.server.rdma_read_channel = raw.rdma_read_channel == "never" ? RdmaReadChannel::kNever
                                    : raw.rdma_read_channel == "required"
                                        ? RdmaReadChannel::kRequired
                                        : RdmaReadChannel::kOffered;
  config.server.spin = absl::Microseconds(raw.spin_us);
  if (!raw.audit_classes.empty()) {
    ASSIGN_OR_RETURN(config.server.audit.classes, ParseAuditClasses(raw.audit_classes));
  }
  config.confine = raw.confine == "on";
  if (raw.slow_ms > 3600000) return absl::InvalidArgumentError("--slow-log: at most 3600000");
  config.server.slow = absl::Milliseconds(raw.slow_ms);
  absl::StatusOr<CpuLatencyOption> cpu_latency = ParseCpuLatency(raw.cpu_latency);
  if (!cpu_latency.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cpu-latency ", raw.cpu_latency, ": ", cpu_latency.status().message()));
  }
  config.server.cpu_latency = *cpu_latency;
  if (raw.stable != "process" && raw.stable != "power") {
    return absl::InvalidArgumentError("--stable: process or power");
  }
  if (raw.admin_socket.empty()) {
    config.server.is_admin_socket_default = true;
    if (geteuid() == 0) config.server.admin_socket = kDefaultAdminSocket;
  } else if (raw.admin_socket != "none") {
    config.server.admin_socket = raw.admin_socket;
  }
  config.server.stable = raw.stable == "power" ? Stable::kPower : Stable::kProcess;
  config.server.response_cache_bytes = raw.response_cache_mib << 20;
  config.server.undo_space_bytes = raw.undo_space_mib << 20;
  if (!(raw.response_cache_time_s >= 1 && raw.response_cache_time_s <= 31536000)) {
    return absl::InvalidArgumentError("--response-cache-time: 1 to 31536000 seconds");
  }
  config.server.response_cache_time = absl::Seconds(raw.response_cache_time_s);
  if (!(raw.lease_time_s >= 1 && raw.lease_time_s <= 86400)) {
    return absl::InvalidArgumentError("--lease-time: 1 to 86400 seconds");
  }
  config.server.lease_time = absl::Seconds(raw.lease_time_s);
  if (!(raw.grace_time_s >= 0 && raw.grace_time_s <= 86400)) {
    return absl::InvalidArgumentError("--grace-time: 0 to 86400 seconds");
  }
  config.server.grace_time = absl::Seconds(raw.grace_time_s);
  if (!(raw.recall_time_s >= 1 && raw.recall_time_s <= kMostRecallSeconds)) {
    return absl::InvalidArgumentError("--recall-time: 1 to 60 seconds");
  }
  config.server.recall_time = absl::Seconds(raw.recall_time_s);
  using Type = Delegations::Type;
  config.server.delegations.most = raw.delegations == "none"   ? Type::kNone
                                   : raw.delegations == "read" ? Type::kRead
                                                               : Type::kWrite;
  return absl::OkStatus();
}

// Parses `arguments` in their order. Stores the texts of --help and --version in config.answer.
// kNotFound: an unknown option. Other errors: kInvalidArgument.
absl::Status ParseArguments(std::vector<std::string> arguments, Config& config, Raw& raw) {
  CLI::App app("dafsd serves directories over DAFS, the Direct Access File System protocol.",
               "dafsd");
  Declare(app, config, raw);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes its arguments from the back
  try {
    app.parse(arguments);
  } catch (const CLI::ExtrasError& error) {
    return absl::NotFoundError(error.what());
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) != 0) return absl::InvalidArgumentError(error.what());
    config.answer = out.str();
  }
  return absl::OkStatus();
}

// Checks one line of a file by itself, so that the message names its place.
absl::Status CheckLine(const ConfigLine& line) {
  Config config;
  Raw raw;
  absl::Status status = ParseArguments({line.argument}, config, raw);
  if (status.ok()) status = Convert(raw, config);
  if (status.ok() && !config.answer.empty()) {
    status = absl::InvalidArgumentError(absl::StrCat(line.argument, " is for the command line"));
  }
  if (status.ok()) return status;
  const std::string key = line.argument.substr(2, line.argument.find('=') - 2);
  const std::string what = absl::IsNotFound(status) ? absl::StrCat("unknown key `", key, "`")
                                                    : std::string(status.message());
  return absl::InvalidArgumentError(absl::StrCat(line.place, ": ", what, "; see dafsd.conf(5)"));
}

// The lines of the file of --config, checked; none without a file.
absl::StatusOr<std::vector<ConfigLine>> ReadLines(const std::vector<std::string>& arguments) {
  const std::string path = ConfigPath(arguments);
  if (path.empty()) return std::vector<ConfigLine>();
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(std::vector<ConfigLine> lines, ParseConfigFile(text, path));
  for (const ConfigLine& line : lines) RETURN_IF_ERROR(CheckLine(line));
  return lines;
}

// The place of the first export that does not fit to those before it.
std::string PlaceOfMisfit(const std::vector<Export>& exports,
                          const std::vector<std::string>& places) {
  size_t fits = 0, fails = exports.size();
  while (fails - fits > 1) {
    const size_t middle = fits + (fails - fits) / 2;
    const std::vector<Export> some(exports.begin(),
                                   exports.begin() + static_cast<std::ptrdiff_t>(middle));
    (CheckExports(some).ok() ? fits : fails) = middle;
  }
  return fails == 0 ? "" : places[fails - 1];
}

}  // namespace

absl::StatusOr<std::vector<Export>> ReadExports(const std::vector<std::string>& arguments,
                                                std::vector<std::string>* others) {
  Config config;
  Raw raw;
  // The command line without the file, which comes first, as at the start.
  RETURN_IF_ERROR(ParseArguments(arguments, config, raw));
  std::vector<Export> exports;
  std::vector<std::string> places;
  ASSIGN_OR_RETURN(const std::vector<ConfigLine> lines, ReadLines(arguments));
  for (const ConfigLine& line : lines) {
    absl::string_view text = line.argument;
    if (absl::ConsumePrefix(&text, kExport)) {
      ASSIGN_OR_RETURN(Export parsed, ParseExport({text.data(), text.size()}));
      exports.push_back(std::move(parsed));
      places.push_back(line.place);
    } else if (others != nullptr) {
      others->push_back(line.argument);
    }
  }
  for (const std::string& text : raw.exports) {
    ASSIGN_OR_RETURN(Export parsed, ParseExport(text));
    exports.push_back(std::move(parsed));
    places.emplace_back("command line");
  }
  const absl::Status status = CheckExports(exports);
  if (status.ok()) return exports;
  const std::string place =
      exports.empty() ? ConfigPath(arguments) : PlaceOfMisfit(exports, places);
  return absl::InvalidArgumentError(
      absl::StrCat(place, place.empty() ? "" : ": ", status.message()));
}

std::string WithPlaceOfExport(const std::vector<std::string>& arguments, std::string_view message) {
  const absl::StatusOr<std::vector<ConfigLine>> lines = ReadLines(arguments);
  for (const ConfigLine& line : lines.ok() ? *lines : std::vector<ConfigLine>()) {
    absl::string_view text = line.argument;
    if (!absl::ConsumePrefix(&text, kExport)) continue;
    const absl::StatusOr<Export> parsed = ParseExport({text.data(), text.size()});
    if (parsed.ok() && absl::StartsWith(Text(message), absl::StrCat("export ", parsed->name, "=",
                                                                    parsed->directory, ": "))) {
      return absl::StrCat(line.place, ": ", Text(message));
    }
  }
  return std::string(message);
}

void MakeConfigAbsolute(std::vector<std::string>& arguments) {
  const std::string path = ConfigPath(arguments);
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (path.empty() || error) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--config" && i + 1 < arguments.size()) arguments[++i] = absolute.string();
    if (arguments[i].rfind("--config=", 0) == 0) arguments[i] = "--config=" + absolute.string();
  }
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
  absl::Status split = dat::SplitHostPort({rest.data(), rest.size()}, &host, &port);
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

absl::StatusOr<std::vector<ConfigLine>> ParseConfigFile(const std::string& text,
                                                        const std::string& path) {
  std::vector<ConfigLine> lines;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find('=');
    const absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, equals));
    const bool plain = std::all_of(key.begin(), key.end(), [](char c) {
      return absl::ascii_islower(static_cast<unsigned char>(c)) || c == '-';
    });
    const std::string place = absl::StrCat(path, ":", number);
    if (key.empty() || !plain) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": expected `key = value`, got `", line, "`"));
    }
    if (key == "config") {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": a configuration file cannot name another"));
    }
    std::string argument = absl::StrCat("--", key);
    if (equals != absl::string_view::npos) {
      absl::StrAppend(&argument, "=", absl::StripAsciiWhitespace(line.substr(equals + 1)));
    }
    lines.push_back({.place = place, .argument = std::move(argument)});
  }
  return lines;
}

absl::StatusOr<Config> ParseConfig(const std::vector<std::string>& arguments) {
  // The file comes first: of options with one value the last wins, so the command line overrides.
  std::vector<std::string> all;
  ASSIGN_OR_RETURN(const std::vector<ConfigLine> lines, ReadLines(arguments));
  for (const ConfigLine& line : lines) all.push_back(line.argument);
  all.insert(all.end(), arguments.begin(), arguments.end());

  Config config;
  Raw raw;
  absl::Status parsed = ParseArguments(std::move(all), config, raw);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(parsed.message(), "; see dafsd --help"));
  }
  if (!config.answer.empty()) return config;
  if (raw.exports.empty()) {
    return absl::InvalidArgumentError("nothing to serve; give --export /NAME=DIR");
  }
  RETURN_IF_ERROR(Convert(raw, config));
  if (config.server.tls.cert_file.empty() != config.server.tls.key_file.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key are needed together");
  }
  if (config.server.tls.cert_file.empty() && !config.server.tls.ca_file.empty()) {
    return absl::InvalidArgumentError("--tls-ca needs --tls-cert and --tls-key");
  }
  if (!config.server.password_file.empty() && config.server.tls.cert_file.empty()) {
    return absl::InvalidArgumentError(
        "--password-file needs --tls-cert and --tls-key: passwords are taken over TLS only");
  }
  for (const std::string& pattern : config.server.trusted) {
    absl::Status status = CheckPrincipalPattern(pattern);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--trusted: ", status.message()));
    }
  }
  if (config.server.state_dir.empty()) {
    return absl::InvalidArgumentError("no state directory; give --state-dir DIR");
  }
  if (!raw.kill_at.empty()) RETURN_IF_ERROR(ArmKillSwitch(raw.kill_at));
  if (config.pid_file.empty()) config.pid_file = config.server.state_dir + "/dafsd.pid";
  return config;
}

}  // namespace dafs::server
