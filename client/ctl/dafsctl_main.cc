// dafsctl: tests servers and reports the state of mounts. See dafsctl(8).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/doctor.h"
#include "client/ctl/fence_command.h"
#include "client/ctl/live_command.h"
#include "client/ctl/mount_query.h"
#include "client/ctl/names_command.h"
#include "client/ctl/ping_command.h"
#include "client/ctl/restart_command.h"
#include "client/ctl/rpcping_command.h"
#include "client/ctl/server_command.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

constexpr int kUsage = 2;  // exit status: the command line is wrong

absl::Status Query(const MountQuery& query, const std::string& request) {
  ASSIGN_OR_RETURN(const std::vector<std::string> answers, AskMounts(query, request));
  for (const std::string& answer : answers) std::fputs(answer.c_str(), stdout);
  return absl::OkStatus();
}

// Returns the error message for a wrong command line.
std::string UsageError(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error) {
  constexpr char kCommands[] =
      "the commands are ping, rpcping, names, status, stats, restart, top, iostat, log, doctor, "
      "fence and server; see dafsctl --help";
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

// The parsed command line. Its pointers belong to the `app` to which Declare added the commands.
struct Commands {
  PingOptions ping;
  NamesRequest names;
  RpcPingOptions rpcping;
  MountQuery query;
  bool json = false;
  LiveOptions live;
  std::string level;
  DoctorOptions doctor;
  RestartOptions restart;
  FenceRequest fence;
  ServerRequest server;

  const CLI::App* ping_command = nullptr;
  const CLI::App* names_command = nullptr;
  const CLI::App* rpcping_command = nullptr;
  const CLI::App* stats_command = nullptr;
  const CLI::App* top_command = nullptr;
  const CLI::App* iostat_command = nullptr;
  const CLI::App* log_command = nullptr;
  const CLI::App* doctor_command = nullptr;
  const CLI::App* restart_command = nullptr;
  const CLI::App* fence_command = nullptr;
  const CLI::App* server_command = nullptr;
};

// A command that reports on one mount, or on all.
const CLI::App* AddReportCommand(CLI::App& app, Commands& commands, const char* name,
                                 const char* what) {
  CLI::App* const command = app.add_subcommand(name, what);
  command->add_option("MOUNTPOINT", commands.query.mount_point,
                      "a path on the mount; default: all mounts");
  command->add_flag("--json", commands.json, "print JSON");
  return command;
}

const CLI::App* AddLogCommand(CLI::App& app, Commands& commands) {
  CLI::App* const command = app.add_subcommand("log", "Set how much a mount logs");
  command->add_option("LEVEL", commands.level, "error, warning, notice, info or debug")->required();
  command->add_option("MOUNTPOINT", commands.query.mount_point,
                      "a path on the mount; default: all mounts");
  return command;
}

// In the order of --help. `commands` outlives `app`.
void Declare(CLI::App& app, Commands& commands) {
  app.require_subcommand(1);
  commands.ping_command = AddPingCommand(app, commands.ping);
  commands.names_command = AddNamesCommand(app, commands.names);
  commands.rpcping_command = AddRpcPingCommand(app, commands.rpcping);
  AddReportCommand(app, commands, "status", "Show the sessions of a mount, and what waits");
  commands.stats_command = AddReportCommand(app, commands, "stats",
                                            "Show the number, time and bytes of requests, by kind");
  commands.top_command = AddTopCommand(app, commands.live);
  commands.iostat_command = AddIostatCommand(app, commands.live);
  commands.log_command = AddLogCommand(app, commands);
  commands.doctor_command = AddDoctorCommand(app, commands.doctor);
  commands.restart_command = AddRestartCommand(app, commands.query.mount_point, commands.restart);
  commands.fence_command = AddFenceCommand(app, commands.fence);
  commands.server_command = AddServerCommand(app, commands.server);
  app.set_version_flag("-V,--version", "dafsctl " DAFS_VERSION);
}

absl::Status RunRestart(const MountQuery& query, const RestartOptions& options) {
  if (options.all) return RestartAll(query.directory, options);
  return AskMount(query, [&](const std::string& socket) { return Restart(socket, options); });
}

// Runs the command that was parsed, except doctor, which has an exit status of its own.
absl::Status Run(const Commands& commands) {
  if (commands.ping_command->parsed()) return Ping(commands.ping);
  if (commands.names_command->parsed()) return ShowNames(commands.names);
  if (commands.rpcping_command->parsed()) return RpcPing(commands.rpcping);
  if (commands.restart_command->parsed()) return RunRestart(commands.query, commands.restart);
  if (commands.fence_command->parsed()) {
    return AskForFence(*commands.fence_command, commands.fence);
  }
  if (commands.server_command->parsed()) {
    return AskServer(*commands.server_command, commands.server);
  }
  if (commands.top_command->parsed()) return RunTop(commands.live);
  if (commands.iostat_command->parsed()) return RunIostat(commands.live);
  if (commands.log_command->parsed()) {
    return Query(commands.query, absl::StrCat("log ", commands.level));
  }
  const bool is_stats = commands.stats_command->parsed();
  return Query(commands.query, commands.json ? "json" : is_stats ? "stats" : "status");
}

int Main(int argc, char** argv) {
  LogToStderr("dafsctl", Severity::kWarning);
  CLI::App app("Tests DAFS servers and reports the state of mounts.", "dafsctl");
  Commands commands;
  Declare(app, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "dafsctl: %s\n", UsageError(app, argc, argv, error).c_str());
    return kUsage;
  }
  if (commands.restart_command->parsed() && !commands.restart.all &&
      commands.query.mount_point.empty()) {
    std::fprintf(stderr, "dafsctl: restart: MOUNTPOINT or --all is required\n");
    return kUsage;
  }
  if (commands.doctor_command->parsed()) return RunDoctor(commands.doctor);
  const absl::Status status = Run(commands);
  if (status.ok()) return 0;
  std::fprintf(stderr, "dafsctl: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace dafs::client

int main(int argc, char** argv) { return dafs::client::Main(argc, argv); }
