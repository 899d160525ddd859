#include "client/ctl/server_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/status/mount_point.h"
#include "runtime/control_socket.h"

namespace dafs::client {
namespace {

struct Word {
  const char* name;
  const char* about;
  const char* argument = nullptr;
  const char* about_argument = nullptr;
  bool needs_argument = false;
};
constexpr char kFile[] = "FILE";
constexpr char kAboutFile[] = "only of this file of the server, or in this directory";
constexpr Word kWords[] = {
    {"status", "Show what the server holds, and its limits"},
    {"stats", "Show the number, time and bytes of requests, by kind"},
    {"clients", "Show the clients, the busiest first"},
    {"opens", "Show which client has which file open", kFile, kAboutFile},
    {"locks", "Show the holders of locks, and their waiters", kFile, kAboutFile},
    {"exports", "Show the exports and their options"},
    {"log", "Set how much the server logs", "LEVEL", "error, warning, notice, info or debug", true},
    {"evict", "End the sessions of a client, and release its opens and locks", "CLIENT",
     "its id or name, as clients shows them", true},
};

}  // namespace

CLI::App* AddServerCommand(CLI::App& app, ServerQuestion& question) {
  CLI::App* const server = app.add_subcommand("server", "Query the dafsd of this machine");
  server->require_subcommand(1);
  server->add_flag("--json", question.json, "print JSON");
  server->add_option("--socket", question.socket, "the socket of dafsd")->capture_default_str();
  for (const Word& word : kWords) {
    CLI::App* const command = server->add_subcommand(word.name, word.about);
    command->fallthrough();  // --json and --socket may follow
    if (word.argument == nullptr) continue;
    command->add_option(word.argument, question.argument, word.about_argument)
        ->required(word.needs_argument);
  }
  return server;
}

absl::Status AskServer(const CLI::App& command, const ServerQuestion& question) {
  const std::string word = command.get_subcommands().front()->get_name();
  std::string argument = question.argument;
  if (!argument.empty() && (word == "opens" || word == "locks")) {
    argument = ResolveMountPoint(argument);
  }
  if (argument.find('\n') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(word, ": a name with a newline"));
  }
  const std::string line =
      absl::StrCat(question.json ? "json " : "", word, argument.empty() ? "" : " ", argument);
  const absl::StatusOr<std::string> answer = AskControlSocket(question.socket, line, "dafsd");
  if (answer.ok()) {
    std::fputs(answer->c_str(), stdout);
    return absl::OkStatus();
  }
  switch (answer.status().code()) {
    case absl::StatusCode::kPermissionDenied:
      return absl::PermissionDeniedError(
          absl::StrCat(question.socket, ": only root and the group dafs can query dafsd"));
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnavailable:
      return absl::UnavailableError(
          absl::StrCat(question.socket, ": no dafsd answers there; --socket names another socket"));
    default:
      return answer.status();
  }
}

}  // namespace dafs::client
