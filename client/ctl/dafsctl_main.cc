// dafsctl: tests servers and reports the state of mounts. See dafsctl(8).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/doctor.h"
#include "client/ctl/fence_command.h"
#include "client/ctl/live_command.h"
#include "client/ctl/mount_query.h"
#include "client/ctl/restart_command.h"
#include "client/ctl/server_command.h"
#include "client/ctl/tls_arguments.h"
#include "client/files/files.h"
#include "client/session/report.h"
#include "client/state/client.h"
#include "runtime/log.h"
#include "runtime/run.h"
#include "runtime/status_macros.h"
#include "wire/dat/address.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::client {
namespace {

constexpr int kUsage = 2;  // exit status: the command line is wrong

struct PingOptions {
  std::string server;
  int count = 4;
  std::string proto = "auto";
  double timeout_s = 2;
  TlsArguments tls;
};

std::string Microseconds(absl::Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f us", absl::ToDoubleMicroseconds(duration));
  return text;
}

void PrintSession(const SessionReport& s) {
  std::printf("%s: %s\n", s.peer.c_str(), s.transport.c_str());
  if (!s.passed_over.empty()) std::printf("  tried before: %s\n", s.passed_over.c_str());
  std::printf("  session %s, %s, checksums %s\n", s.session_id.c_str(),
              s.trusted ? "trusted" : "not trusted", s.checksums ? "on" : "off");
  std::printf("  requests up to %u bytes, responses up to %u, %u at once, %u credentials\n",
              s.max_request_size, s.max_response_size, s.max_requests, s.max_credentials);
}

absl::Status PingLoop(Files& files, Loop& loop, int count) {
  RETURN_IF_ERROR(RunUntilDone(loop, files.Connect()));
  PrintSession(files.Report().session);
  absl::Duration least = absl::InfiniteDuration(), most, total;
  for (int i = 1; i <= count; ++i) {
    absl::Time start = Loop::Now();
    RETURN_IF_ERROR(RunUntilDone(loop, files.Null()));
    absl::Duration took = Loop::Now() - start;
    std::printf("null %d: %s\n", i, Microseconds(took).c_str());
    std::fflush(stdout);
    least = std::min(least, took);
    most = std::max(most, took);
    total += took;
    if (i < count) usleep(200000);
  }
  if (count > 0) {
    std::printf("least %s, mean %s, most %s\n", Microseconds(least).c_str(),
                Microseconds(total / count).c_str(), Microseconds(most).c_str());
  }
  return absl::OkStatus();
}

absl::Status Ping(const PingOptions& ping) {
  std::string host;
  uint16_t port = dat::kDefaultPort;
  RETURN_IF_ERROR(dat::SplitHostPort(ping.server, &host, &port));
  ClientOptions options;
  ASSIGN_OR_RETURN(options.addresses, dat::ResolveHost(host, port));
  std::unique_ptr<dat::Provider> rdma, tcp;
  if (ping.proto != "tcp" && !ping.tls.wanted()) rdma = dat::NewVerbsProvider();
  if (ping.proto != "rdma") {
    ASSIGN_OR_RETURN(tcp, NewTcpProvider(ping.tls, host));
  } else if (ping.tls.wanted()) {
    return absl::InvalidArgumentError("--xprtsec: RDMA devices have no TLS; use --proto tcp");
  }
  for (dat::Provider* provider : {rdma.get(), tcp.get()}) {
    if (provider != nullptr) options.providers.push_back(provider);
  }
  options.server_name = ping.server;
  options.client_id_string = absl::StrCat("dafsctl ping ", getpid());
  options.max_requests = 4;
  options.buffers.bytes = size_t{4} << 20;
  options.soft = true;
  options.timeout = options.connect_timeout = absl::Seconds(ping.timeout_s);
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Create(std::move(options)));
  ASSIGN_OR_RETURN(std::unique_ptr<Loop> loop, Loop::Create());
  ASSIGN_OR_RETURN(std::unique_ptr<Files> files, Files::Create(*client, *loop));
  absl::Status status = PingLoop(*files, *loop, ping.count);
  // A server that does not reply gets no DISCONNECT either.
  if (status.ok()) {
    RunUntilDone(*loop, files->Disconnect());
  } else {
    files->Shutdown();
  }
  return status;
}

absl::Status Query(const MountQuery& query, const std::string& request) {
  ASSIGN_OR_RETURN(const std::vector<std::string> answers, AskMounts(query, request));
  for (const std::string& answer : answers) std::fputs(answer.c_str(), stdout);
  return absl::OkStatus();
}

// Returns the error message for a wrong command line.
std::string UsageError(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error) {
  constexpr char kCommands[] =
      "the commands are ping, status, stats, restart, top, iostat, log, doctor, fence and server; "
      "see "
      "dafsctl --help";
  if (argc < 2) return absl::StrCat("no command given; ", kCommands);
  const auto named = [&](const CLI::App* command) { return command->check_name(argv[1]); };
  if (app.get_subcommands(named).empty()) {
    return absl::StrCat(argv[1][0] == '-' ? "unknown option " : "no command ", argv[1], "; ",
                        kCommands);
  }
  const CLI::App* const command = app.get_subcommands(named).front();
  if (argc > 2 && argv[2][0] != '-' && !command->get_subcommands(nullptr).empty() &&
      command->get_subcommands([&](const CLI::App* one) { return one->check_name(argv[2]); })
          .empty()) {
    return absl::StrCat("no command ", argv[1], " ", argv[2], "; see dafsctl ", argv[1], " --help");
  }
  return error.what();
}

int Main(int argc, char** argv) {
  LogToStderr("dafsctl", Severity::kWarning);
  CLI::App app("Tests DAFS servers and reports the state of mounts.", "dafsctl");
  app.require_subcommand(1);

  PingOptions ping;
  CLI::App* ping_command = app.add_subcommand("ping", "Open a session with a server and time it");
  ping_command->add_option("SERVER", ping.server, "host, host:port, [address]:port")->required();
  ping_command->add_option("-c,--count", ping.count, "number of NULL requests")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  ping_command->add_option("--proto", ping.proto, "transport: auto, tcp or rdma")
      ->check(CLI::IsMember({"auto", "tcp", "rdma"}))
      ->capture_default_str();
  ping_command
      ->add_option("-W,--timeout", ping.timeout_s,
                   "seconds to wait for the connection, and for each reply")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();

  AddTlsArguments(*ping_command, ping.tls);

  MountQuery query;
  bool json = false;
  auto add_query = [&](const char* name, const char* what) {
    CLI::App* command = app.add_subcommand(name, what);
    command->add_option("MOUNTPOINT", query.mount_point,
                        "a path on the mount; default: all mounts");
    command->add_flag("--json", json, "print JSON");
    return command;
  };
  add_query("status", "Show the sessions of a mount, and what waits");
  CLI::App* const stats_command =
      add_query("stats", "Show the number, time and bytes of requests, by kind");
  LiveOptions live;
  const CLI::App* const top_command = AddTopCommand(app, live);
  const CLI::App* const iostat_command = AddIostatCommand(app, live);
  std::string level;
  CLI::App* const log_command = app.add_subcommand("log", "Set how much a mount logs");
  log_command->add_option("LEVEL", level, "error, warning, notice, info or debug")->required();
  log_command->add_option("MOUNTPOINT", query.mount_point,
                          "a path on the mount; default: all mounts");
  DoctorOptions doctor;
  const CLI::App* const doctor_command = AddDoctorCommand(app, doctor);
  RestartOptions restart;
  CLI::App* const restart_command =
      app.add_subcommand("restart", "Replace the mount.dafs of a mount, unnoticed by programs");
  CLI::Option* const one =
      restart_command->add_option("MOUNTPOINT", query.mount_point, "a path on the mount");
  restart_command->add_flag("--all", restart.all, "each mount of this machine")->excludes(one);
  restart_command->add_option("--program", restart.program,
                              "the mount.dafs to start; default: the file of the one that runs");
  FenceRequest fence;
  const CLI::App* const fence_command = AddFenceCommand(app, fence);
  ServerRequest server;
  const CLI::App* const server_command = AddServerCommand(app, server);
  app.set_version_flag("-V,--version", "dafsctl " DAFS_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answer) {  // --help, --version
    return app.exit(answer);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "dafsctl: %s\n", UsageError(app, argc, argv, error).c_str());
    return kUsage;
  }

  if (restart_command->parsed() && !restart.all && query.mount_point.empty()) {
    std::fprintf(stderr, "dafsctl: restart: MOUNTPOINT or --all is required\n");
    return kUsage;
  }
  absl::Status status;
  if (ping_command->parsed()) {
    status = Ping(ping);
  } else if (restart_command->parsed()) {
    status =
        restart.all
            ? RestartAll(query.directory, restart)
            : AskMount(query, [&](const std::string& socket) { return Restart(socket, restart); });
  } else if (fence_command->parsed()) {
    status = AskForFence(*fence_command, fence);
  } else if (server_command->parsed()) {
    status = AskServer(*server_command, server);
  } else if (top_command->parsed()) {
    status = RunTop(live);
  } else if (iostat_command->parsed()) {
    status = RunIostat(live);
  } else if (log_command->parsed()) {
    status = Query(query, absl::StrCat("log ", level));
  } else if (doctor_command->parsed()) {
    return RunDoctor(doctor);
  } else {
    status = Query(query, json ? "json" : stats_command->parsed() ? "stats" : "status");
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "dafsctl: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace dafs::client

int main(int argc, char** argv) { return dafs::client::Main(argc, argv); }
