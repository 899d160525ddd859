#include "client/ctl/restart_command.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/ctl/mount_query.h"
#include "runtime/sockets/control_socket.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr absl::Duration kAskAgain = absl::Milliseconds(10);

struct Progress {
  uint64_t restarts = 0;
  std::string refused;  // why, if the last restart was
};

absl::StatusOr<Progress> AskProgress(const std::string& socket) {
  ASSIGN_OR_RETURN(const std::string text, AskControlSocket(socket, "restarted"));
  const std::vector<std::string> lines = absl::StrSplit(text, absl::MaxSplits('\n', 1));
  Progress progress;
  if (!absl::SimpleAtoi(lines[0], &progress.restarts) || lines.size() != 2) {
    return absl::DataLossError("mount.dafs does not say how often it was restarted");
  }
  progress.refused = lines[1];
  return progress;
}

absl::StatusOr<std::string> AskMountPoint(const std::string& socket) {
  ASSIGN_OR_RETURN(const std::string text, AskControlSocket(socket, "json"));
  const nlohmann::json report = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object() || !report.contains("mount_point") ||
      !report["mount_point"].is_string()) {
    return absl::DataLossError("mount.dafs does not say where it is mounted");
  }
  return report["mount_point"].get<std::string>();
}

}  // namespace

CLI::App* AddRestartCommand(CLI::App& app, std::string& mount_point, RestartOptions& options) {
  CLI::App* const command =
      app.add_subcommand("restart", "Replace the mount.dafs of a mount, unnoticed by programs");
  CLI::Option* const one = command->add_option("MOUNTPOINT", mount_point, "a path on the mount");
  command->add_flag("--all", options.all, "each mount of this machine")->excludes(one);
  command->add_option("--program", options.program,
                      "the mount.dafs to start; default: the file of the one that runs");
  return command;
}

absl::Status Restart(const std::string& socket, const RestartOptions& options) {
  std::string request = "restart";
  if (!options.program.empty()) {
    std::error_code error;
    const std::string program = std::filesystem::absolute(options.program, error).string();
    if (error || program.find('\n') != std::string::npos) {
      return absl::FailedPreconditionError(
          absl::StrCat("--program: not the name of a program: ", options.program));
    }
    request += " " + program;
  }
  ASSIGN_OR_RETURN(const Progress before, AskProgress(socket));
  RETURN_IF_ERROR(AskControlSocket(socket, request).status());
  const absl::Time end = absl::Now() + kPatience;
  while (absl::Now() < end) {
    absl::SleepFor(kAskAgain);
    // Between the two programs none answers.
    const absl::StatusOr<Progress> now = AskProgress(socket);
    if (!now.ok()) continue;
    if (now->restarts > before.restarts) return absl::OkStatus();
    if (!now->refused.empty()) {
      return absl::FailedPreconditionError(absl::StrCat("not restarted: ", now->refused));
    }
  }
  return absl::DeadlineExceededError("no new program has answered within a minute");
}

absl::Status RestartAll(const std::string& directory, const RestartOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> sockets, MountSockets(directory));
  size_t failed = 0;
  for (const std::string& socket : sockets) {
    const absl::StatusOr<std::string> point = AskMountPoint(socket);
    // A killed program left its socket.
    if (absl::IsUnavailable(point.status()) || absl::IsNotFound(point.status())) continue;
    const absl::Status status = point.ok() ? Restart(socket, options) : point.status();
    if (status.ok()) continue;
    ++failed;
    std::fprintf(stderr, "dafsctl: %s: %s\n", point.value_or(socket).c_str(),
                 std::string(status.message()).c_str());
  }
  if (failed == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(failed, " of the mounts still run the old program"));
}

}  // namespace dafs::client
