#include "client/ctl/server_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/status/mount_point.h"
#include "runtime/sockets/control_socket.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

struct Word {
  const char* name;
  const char* about;
  const char* argument = nullptr;
  const char* about_argument = nullptr;
  bool needs_argument = false;
};
constexpr absl::Duration kLookEvery = absl::Milliseconds(500);  // of drain --wait
// Of drain --to. A client that sends requests learns of it with the next answer.
constexpr absl::Duration kTellWithin = absl::Seconds(5);
constexpr absl::Duration kTellEvery = absl::Milliseconds(20);
constexpr char kFile[] = "FILE";
constexpr char kAboutFile[] = "only of this file of the server, or in this directory";
constexpr Word kWords[] = {
    {"status", "Show what the server holds, and its limits"},
    {"stats", "Show the number, time and bytes of requests, by kind"},
    {"clients", "Show the clients, those with the most requests first"},
    {"files", "Show the files that the clients use most now"},
    {"opens", "Show which client has which file open", kFile, kAboutFile},
    {"locks", "Show the holders of locks, and their waiters", kFile, kAboutFile},
    {"exports", "Show the exports and their options"},
    {"log", "Set how much the server logs", "LEVEL", "error, warning, notice, info or debug", true},
    {"evict", "End the sessions of a client, and release its opens and locks", "CLIENT",
     "its id or name, as clients shows them", true},
    {"unlock", "Release locks of a file: their owners lose their open of the file", kFile,
     "the file, as locks shows it", true},
    {"drain", "Take no new clients, before maintenance"},
    {"reload", "Read the exports of the configuration file again, and serve these"},
};

// The word of the request that asks for it.
std::string WordOf(const std::string& name, const ServerRequest& request) {
  if (name != "locks") return name;
  return request.release ? "forget-locks" : request.broken ? "failed-locks" : name;
}

// The argument of the word in the request.
std::string ArgumentOf(const std::string& word, const ServerRequest& request) {
  if (word == "clients") return request.sort == "load" ? "load" : "";
  if (word == "drain") {
    return request.undo ? "undo" : request.to.empty() ? "" : absl::StrCat("to ", request.to);
  }
  if (word == "unlock") {
    // A handle is not a path.
    const bool is_path = request.argument.find('/') != std::string::npos;
    return absl::StrCat(request.lock, " ",
                        is_path ? ResolveMountPoint(request.argument) : request.argument);
  }
  const bool is_file = word == "opens" || word == "locks";
  if (request.release && request.argument.find('/') == std::string::npos) {
    return request.argument;  // a handle
  }
  return is_file && !request.argument.empty() ? ResolveMountPoint(request.argument)
                                              : request.argument;
}

absl::StatusOr<std::string> Ask(const ServerRequest& request, const std::string& line) {
  absl::StatusOr<std::string> answer = AskControlSocket(request.socket, line, "dafsd");
  switch (answer.status().code()) {
    case absl::StatusCode::kPermissionDenied:
      return absl::PermissionDeniedError(
          absl::StrCat(request.socket, ": only root and the group dafs can query dafsd"));
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnavailable:
      return absl::UnavailableError(
          absl::StrCat(request.socket, ": no dafsd answers there; --socket names another socket"));
    default:
      return answer;
  }
}

// Prints each change of what is left, until nothing is.
absl::Status AwaitDrained(const ServerRequest& request) {
  const absl::Time deadline = absl::Now() + absl::Seconds(request.wait_s);
  std::string said;
  for (;;) {
    ASSIGN_OR_RETURN(const std::string report, Ask(request, "json status"));
    const auto status = nlohmann::json::parse(report, nullptr, /*allow_exceptions=*/false);
    if (!status.is_object() || !status.contains("drain")) {
      return absl::DataLossError("dafsd did not answer with its state");
    }
    const auto& drain = status["drain"];
    const std::string state = drain.value("state", "");
    const std::string now = absl::StrCat(drain.value("clients", uint64_t{0}), " clients left, ",
                                         drain.value("opens", uint64_t{0}), " opens, ",
                                         drain.value("locks", uint64_t{0}), " locks");
    if (said != now) std::printf("%s\n", (said = now).c_str());
    std::fflush(stdout);
    if (state == "drained") return absl::OkStatus();
    if (state != "draining") {
      return absl::AbortedError("drain: another administrator has ended it");
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          "drain: clients are left; dafsd takes no new ones until drain --undo");
    }
    absl::SleepFor(std::min(left, kLookEvery));
  }
}

// Waits until the clients know the alternate location, then ends the server.
absl::Status MoveTo(const ServerRequest& request) {
  const absl::Time deadline =
      absl::Now() + (request.wait_s > 0 ? absl::Seconds(request.wait_s) : kTellWithin);
  uint64_t untold = 0;
  do {
    ASSIGN_OR_RETURN(const std::string report, Ask(request, "json status"));
    const auto status = nlohmann::json::parse(report, nullptr, /*allow_exceptions=*/false);
    if (!status.is_object() || !status.contains("drain")) {
      return absl::DataLossError("dafsd did not answer with its state");
    }
    untold = status["drain"].value("untold", uint64_t{0});
    if (untold > 0) absl::SleepFor(kTellEvery);
  } while (untold > 0 && absl::Now() < deadline);
  RETURN_IF_ERROR(Ask(request, "end").status());
  if (untold > 0) {
    std::printf("stopping; %llu clients have sent nothing since, so they do not know %s\n",
                static_cast<unsigned long long>(untold), request.to.c_str());
  } else {
    std::printf("stopping; clients go to %s\n", request.to.c_str());
  }
  return absl::OkStatus();
}

absl::Status ShowRecords(const ServerRequest& request) {
  ASSIGN_OR_RETURN(const std::string status, Ask(request, "json status"));
  ASSIGN_OR_RETURN(const std::string exports, Ask(request, "json exports"));
  ASSIGN_OR_RETURN(const std::vector<names::Location> locations,
                   LocationsOf(request.records, status, exports));
  return PrintRecords(request.records, locations, request.json);
}

}  // namespace

CLI::App* AddServerCommand(CLI::App& app, ServerRequest& request) {
  CLI::App* const server = app.add_subcommand("server", "Query the dafsd of this machine");
  server->require_subcommand(1);
  server->add_flag("--json", request.json, "print JSON");
  server->add_option("--socket", request.socket, "the socket of dafsd")->capture_default_str();
  for (const Word& word : kWords) {
    CLI::App* const command = server->add_subcommand(word.name, word.about);
    command->fallthrough();  // --json and --socket may follow
    if (word.argument == nullptr) continue;
    command->add_option(word.argument, request.argument, word.about_argument)
        ->required(word.needs_argument);
  }
  AddRecordsCommand(*server, request.records);
  server->get_subcommand("clients")
      ->add_option("--sort", request.sort, "by requests so far, or by load now")
      ->check(CLI::IsMember({"requests", "load"}))
      ->capture_default_str();
  server->get_subcommand("unlock")
      ->add_option("ID", request.lock, "the lock owner, as locks shows it, or all")
      ->required();
  CLI::App* const locks = server->get_subcommand("locks");
  CLI::Option* const broken =
      locks->add_flag("--broken", request.broken, "persistent locks whose client has failed");
  locks->add_flag("--release", request.release, "forget the broken locks of FILE, unrepaired")
      ->excludes(broken)
      ->needs(locks->get_option(kFile));
  CLI::App* const drain = server->get_subcommand("drain");
  CLI::Option* const undo = drain->add_flag("--undo", request.undo, "take new clients again");
  drain
      ->add_option("--to", request.to,
                   "HOST[:PORT] where the server continues: notify the clients, then stop dafsd")
      ->excludes(undo);
  drain
      ->add_option("--wait", request.wait_s, "wait up to this many seconds until no client is left")
      ->check(CLI::Range(0.0, 86400.0));
  return server;
}

absl::Status AskServer(const CLI::App& command, const ServerRequest& request) {
  const std::string word = command.get_subcommands().front()->get_name();
  if (word == "records") return ShowRecords(request);
  const std::string argument = ArgumentOf(word, request);
  if (argument.find('\n') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(word, ": a name with a newline"));
  }
  ASSIGN_OR_RETURN(const std::string answer,
                   Ask(request, absl::StrCat(request.json ? "json " : "", WordOf(word, request),
                                             argument.empty() ? "" : " ", argument)));
  if (word == "drain" && !request.to.empty()) return MoveTo(request);
  const bool waits = word == "drain" && !request.undo && request.wait_s > 0;
  if (waits) return AwaitDrained(request);
  std::fputs(answer.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace dafs::client
