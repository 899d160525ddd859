// dafsctl: asks a server whether it answers, and mounts how they are. See dafsctl(8).
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/files.h"
#include "client/lease_keeper.h"
#include "client/report.h"
#include "client/run.h"
#include "client/status_socket.h"
#include "wire/dat/address.h"
#include "wire/dat/iwarp.h"
#include "wire/dat/verbs.h"
#include "wire/log.h"
#include "wire/status_macros.h"

namespace dafs::client {
namespace {

struct PingOptions {
  std::string server;
  int count = 4;
  std::string proto = "auto";
};

struct QueryOptions {
  std::string mount_point;
  bool json = false;
  std::string directory = LeaseKeeperOptions().socket_directory;
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

absl::Status PingLoop(Files& files, dat::Loop& loop, int count) {
  RETURN_IF_ERROR(RunUntilDone(loop, files.Connect()));
  PrintSession(files.Report().session);
  absl::Duration least = absl::InfiniteDuration(), most, total;
  for (int i = 1; i <= count; ++i) {
    absl::Time start = dat::Loop::Now();
    RETURN_IF_ERROR(RunUntilDone(loop, files.Null()));
    absl::Duration took = dat::Loop::Now() - start;
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
  if (ping.proto != "tcp") rdma = dat::NewVerbsProvider();
  if (ping.proto != "rdma") tcp = dat::NewIwarpProvider();
  for (dat::Provider* provider : {rdma.get(), tcp.get()}) {
    if (provider != nullptr) options.providers.push_back(provider);
  }
  options.server_name = ping.server;
  options.client_id_string = absl::StrCat("dafsctl ping ", getpid());
  options.max_requests = 4;
  options.buffers.bytes = size_t{4} << 20;
  options.soft = true;
  options.timeout = absl::Seconds(10);
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Client::Create(std::move(options)));
  ASSIGN_OR_RETURN(std::unique_ptr<dat::Loop> loop, dat::Loop::Create());
  ASSIGN_OR_RETURN(std::unique_ptr<Files> files, Files::Create(*client, *loop));
  absl::Status status = PingLoop(*files, *loop, ping.count);
  RunUntilDone(*loop, files->Disconnect());
  return status;
}

// The mount at `mount_point`, or all of them.
absl::Status Query(const QueryOptions& query, const char* question) {
  if (!query.mount_point.empty()) {
    std::error_code ignored;
    std::string path = std::filesystem::weakly_canonical(query.mount_point, ignored).string();
    ASSIGN_OR_RETURN(std::string text,
                     AskStatus(LeaseKeeper::SocketPath(query.directory, path), question));
    std::fputs(text.c_str(), stdout);
    return absl::OkStatus();
  }
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(query.directory, error)) {
    if (entry.path().extension() == ".sock") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  bool any = false;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> text = AskStatus(path, question);
    if (!text.ok()) continue;  // left by a program that was killed
    std::fputs(text->c_str(), stdout);
    any = true;
  }
  if (!any) return absl::NotFoundError("no DAFS mount answers");
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  LogToStderr("dafsctl", Severity::kWarning);
  CLI::App app("Asks DAFS servers and mounts how they are.", "dafsctl");
  app.require_subcommand(1);

  PingOptions ping;
  CLI::App* ping_command = app.add_subcommand("ping", "Open a session with a server and time it");
  ping_command->add_option("SERVER", ping.server, "host, host:port, [address]:port")->required();
  ping_command->add_option("-c,--count", ping.count, "how many NULL requests")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  ping_command->add_option("--proto", ping.proto, "transport: auto, tcp or rdma")
      ->check(CLI::IsMember({"auto", "tcp", "rdma"}))
      ->capture_default_str();

  QueryOptions query;
  auto add_query = [&](const char* name, const char* what) {
    CLI::App* command = app.add_subcommand(name, what);
    command->add_option("MOUNTPOINT", query.mount_point, "a mounted directory; none: all mounts");
    command->add_flag("--json", query.json, "print JSON");
    return command;
  };
  CLI::App* status_command =
      add_query("status", "Show the sessions of a mount, and what is out on them");
  add_query("stats", "Show how many requests of which kind a mount made");
  CLI11_PARSE(app, argc, argv);

  absl::Status status;
  if (ping_command->parsed()) {
    status = Ping(ping);
  } else {
    const char* question = status_command->parsed() ? "status" : "stats";
    status = Query(query, query.json ? "json" : question);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "dafsctl: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace dafs::client

int main(int argc, char** argv) { return dafs::client::Main(argc, argv); }
