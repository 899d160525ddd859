#include "client/ctl/doctor.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

namespace dafs::client {
namespace {

using Json = nlohmann::ordered_json;

const char* VerdictText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kFailed:
      return "failed";
  }
  return "";
}

Findings CheckAll(const DoctorOptions& options) {
  Findings all;
  const auto add = [&all](Findings more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  };
  add(CheckFuse(options.place));
  add(CheckMountProgram(options.place));
  add(CheckMemlock(options.place));
  add(CheckIoUring(options.place));
  add(CheckRdma(options.place));
  add(CheckNames(options.place));
  add(CheckClock());
  add(CheckExports(options.place));
  if (!options.server.empty()) add(CheckServer(options.server, options.tls));
  return all;
}

void Print(const Findings& findings, bool json) {
  Json list = Json::array();
  for (const Finding& one : findings) {
    if (json) {
      list.push_back({{"check", one.check},
                      {"verdict", VerdictText(one.verdict)},
                      {"found", one.found},
                      {"remedy", one.remedy}});
      continue;
    }
    std::printf("%-8s %-9s %s\n", VerdictText(one.verdict), one.check.c_str(), one.found.c_str());
    if (!one.remedy.empty()) std::printf("%-18s %s\n", "", one.remedy.c_str());
  }
  if (!json) return;
  const Json object = {{"checks", std::move(list)}};
  std::printf("%s\n", object.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace

CLI::App* AddDoctorCommand(CLI::App& app, DoctorOptions& options) {
  CLI::App* const doctor = app.add_subcommand(
      "doctor", "Check what a mount needs: this machine, and the way to a server");
  doctor->add_option("SERVER", options.server, "host, host:port, [address]:port");
  AddTlsArguments(*doctor, options.tls);
  doctor->add_flag("--json", options.json, "print JSON");
  doctor->add_option("--socket", options.place.server_socket, "the socket of dafsd")
      ->capture_default_str();
  doctor->add_option("--root", options.place.root)->group("");  // for tests
  return doctor;
}

int RunDoctor(const DoctorOptions& options) {
  const Findings findings = CheckAll(options);
  Print(findings, options.json);
  Verdict worst = Verdict::kOk;
  for (const Finding& one : findings) worst = std::max(worst, one.verdict);
  return static_cast<int>(worst);
}

}  // namespace dafs::client
