#include "client/ctl/ping_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/exchange/report.h"
#include "client/files/files.h"
#include "client/state/client.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/run.h"
#include "runtime/status_macros.h"
#include "wire/dat/address.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::client {
namespace {

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

}  // namespace

CLI::App* AddPingCommand(CLI::App& app, PingOptions& options) {
  CLI::App* const command = app.add_subcommand("ping", "Open a session with a server and time it");
  command->add_option("SERVER", options.server, "host, host:port, [address]:port")->required();
  AddPingArguments(*command, options.times, "NULL requests");
  command->add_option("--proto", options.proto, "transport: auto, tcp or rdma")
      ->check(CLI::IsMember({"auto", "tcp", "rdma"}))
      ->capture_default_str();
  AddTlsArguments(*command, options.tls);
  return command;
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
  options.timeout = options.connect_timeout = absl::Seconds(ping.times.timeout_s);
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Create(std::move(options)));
  ASSIGN_OR_RETURN(std::unique_ptr<Loop> loop, Loop::Create());
  ASSIGN_OR_RETURN(std::unique_ptr<Files> files, Files::Create(*client, *loop));
  absl::Status status = PingLoop(*files, *loop, ping.times.count);
  // A server that does not reply gets no DISCONNECT either.
  if (status.ok()) {
    RunUntilDone(*loop, files->Disconnect());
  } else {
    files->Shutdown();
  }
  return status;
}

}  // namespace dafs::client
