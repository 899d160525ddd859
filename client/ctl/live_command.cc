#include "client/ctl/live_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/ctl/figures.h"
#include "client/ctl/live_text.h"
#include "runtime/loop/loop.h"
#include "runtime/sockets/control_socket.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostClients = 20;
constexpr char kClear[] = "\033[H\033[2J";  // ANSI: cursor to the top, erase the screen

// Reports of the same programs over time.
class Series {
 public:
  explicit Series(const LiveOptions& options) : options_(options) {}

  // Reads new reports of the mounts. The error of AskMounts.
  absl::StatusOr<std::vector<MountFigures>> Mounts() {
    const double seconds = Elapsed(mounts_at_);
    ASSIGN_OR_RETURN(const std::vector<std::string> answers, AskMounts(options_.query, "json"));
    std::vector<MountFigures> figures;
    std::map<std::string, Json> present;
    for (const std::string& answer : answers) {
      Json now = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
      if (!now.is_object() || !now.contains("procedures") || !now.contains("workers")) continue;
      const std::string point = now.value("mount_point", "");
      const auto before = mounts_.find(point);
      figures.push_back(FiguresOf(before == mounts_.end() ? Json() : before->second, now, seconds));
      present[point] = std::move(now);
    }
    mounts_ = std::move(present);
    return figures;
  }

  // The same for the clients of the dafsd of this machine.
  absl::StatusOr<std::vector<ClientFigures>> Clients() {
    const double seconds = Elapsed(clients_at_);
    ASSIGN_OR_RETURN(const std::string answer,
                     AskControlSocket(options_.server_socket, "json clients", "dafsd"));
    Json now = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
    if (!now.is_object() || !now.contains("clients")) {
      return absl::InternalError("dafsd: an answer that is not understood");
    }
    std::vector<ClientFigures> figures = ClientsOf(clients_, now, seconds);
    clients_ = std::move(now);
    return figures;
  }

 private:
  static double Elapsed(absl::Time& since) {
    const absl::Time before = std::exchange(since, Loop::Now());
    return absl::ToDoubleSeconds(since - before);
  }

  const LiveOptions& options_;
  absl::Time mounts_at_ = Loop::Now();
  absl::Time clients_at_ = Loop::Now();
  std::map<std::string, Json> mounts_;  // by mount point
  Json clients_;
};

// Calls `report` options.count times.
template <class F>
absl::Status Repeat(const LiveOptions& options, F&& report) {
  for (int i = 0; options.count == 0 || i < options.count; ++i) {
    if (i > 0) absl::SleepFor(absl::Seconds(options.seconds));
    RETURN_IF_ERROR(report());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

void AddCommon(CLI::App& command, LiveOptions& options) {
  command.add_option("--mount", options.query.mount_point,
                     "a path on the mount; default: all mounts");
}

}  // namespace

CLI::App* AddTopCommand(CLI::App& app, LiveOptions& options) {
  CLI::App* const top = app.add_subcommand(
      "top", "Show the load of the mounts and of the server of this machine, repeatedly");
  AddCommon(*top, options);
  top->add_option("-d,--delay", options.seconds, "seconds between two reports (default 1)")
      ->check(CLI::Range(0.1, 3600.0));
  top->add_option("-n,--iterations", options.count, "number of reports (default: without end)")
      ->check(CLI::Range(1, 1000000000));
  top->add_flag("-b,--batch", options.batch, "do not clear the screen: for files and pipes");
  top->add_option("--socket", options.server_socket, "the socket of dafsd")->capture_default_str();
  return top;
}

CLI::App* AddIostatCommand(CLI::App& app, LiveOptions& options) {
  CLI::App* const iostat =
      app.add_subcommand("iostat", "Show the rates and times of reads and writes of the mounts");
  AddCommon(*iostat, options);
  CLI::Option* const seconds =
      iostat->add_option("SECONDS", options.seconds, "between two reports; default: one report")
          ->check(CLI::Range(0.1, 86400.0));
  iostat->add_option("COUNT", options.count, "number of reports")
      ->check(CLI::Range(1, 1000000000))
      ->needs(seconds);
  // Without SECONDS there is one report.
  iostat->callback([seconds, &options] {
    if (seconds->count() == 0) options.count = 1;
  });
  return iostat;
}

absl::Status RunTop(const LiveOptions& options) {
  const bool clears = !options.batch && isatty(STDOUT_FILENO) != 0;
  Series series(options);
  return Repeat(options, [&]() -> absl::Status {
    const absl::StatusOr<std::vector<MountFigures>> mounts = series.Mounts();
    const absl::StatusOr<std::vector<ClientFigures>> clients = series.Clients();
    if (!mounts.ok() && !clients.ok()) return mounts.status();
    std::string text = clears ? kClear : "";
    text += absl::FormatTime("%H:%M:%S\n", absl::Now(), absl::LocalTimeZone());
    if (mounts.ok()) text += TopText(*mounts);
    if (clients.ok()) text += "\n" + ClientsText(*clients, kMostClients);
    std::fputs((text + (clears ? "" : "\n")).c_str(), stdout);
    return absl::OkStatus();
  });
}

absl::Status RunIostat(const LiveOptions& options) {
  Series series(options);
  return Repeat(options, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<MountFigures> mounts, series.Mounts());
    for (const MountFigures& mount : mounts) std::printf("%s\n", IostatText(mount).c_str());
    return absl::OkStatus();
  });
}

}  // namespace dafs::client
