#include "server/admin/answers.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "runtime/text.h"
#include "server/admin/commands.h"
#include "server/admin/report_text.h"
#include "server/admin/reports.h"
#include "server/audit/audit_line.h"
#include "server/audit/audit_log.h"

namespace dafs::server {
namespace {

using Json = nlohmann::ordered_json;

bool IsNone(std::string_view argument) { return argument.empty(); }
bool IsFile(std::string_view) { return true; }
bool IsOrder(std::string_view argument) { return argument.empty() || argument == kByLoad; }

struct Report {
  std::string_view word;
  Json (*make)(const AdminView& view, std::string_view argument);
  std::string (*print)(const Json& report);
  bool (*accepts)(std::string_view argument) = IsNone;
};

constexpr Report kReports[] = {
    {"status", [](const AdminView& view, std::string_view) { return StatusReport(view); },
     StatusReportText},
    {"stats", [](const AdminView& view, std::string_view) { return StatsReport(view); },
     StatsReportText},
    {"clients", ClientsReport, ClientsReportText, IsOrder},
    {"files", [](const AdminView& view, std::string_view) { return FilesReport(view); },
     FilesReportText},
    {"opens", OpensReport, OpensReportText, IsFile},
    {"locks", LocksReport, LocksReportText, IsFile},
    {"failed-locks", FailedLocksReport, FailedLocksReportText, IsFile},
    {"exports", [](const AdminView& view, std::string_view) { return ExportsReport(view); },
     ExportsReportText},
};

// The error handler keeps a strange name from throwing an exception.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void Audit(const AdminView& view, const ControlSocket::Request& request, std::string_view by,
           const absl::StatusOr<std::string>& answer) {
  AuditLog* const log = view.shared.audit;
  if (log == nullptr || !log->Wants(AuditClass::kAdmin)) return;
  AuditLine line(absl::Now(), AuditClass::kAdmin, "COMMAND");
  line.Add("by", by);
  line.Add("command", request.text);
  line.Add("result", answer.ok() ? "OK" : std::string(answer.status().message()));
  log->Write(std::move(line).Take());
}

constexpr char kWords[] =
    "the requests are status, stats, clients [load], files, opens [FILE], locks [FILE], "
    "failed-locks [FILE], exports, log LEVEL, evict CLIENT, unlock ID|all FILE, forget-locks FILE, "
    "drain [undo] and reload";

}  // namespace

absl::StatusOr<std::string> AnswerAdmin(const AdminView& view,
                                        const ControlSocket::Request& request) {
  absl::string_view rest = Text(request.text);
  const bool json = absl::ConsumePrefix(&rest, "json ");
  const size_t space = rest.find(' ');
  const std::string word(rest.substr(0, space));
  const std::string argument(space == rest.npos ? "" : rest.substr(space + 1));
  for (const Report& report : kReports) {
    if (word != report.word) continue;
    if (!report.accepts(argument)) {
      return absl::InvalidArgumentError(absl::StrCat(
          word, report.accepts == IsOrder ? " takes load or no argument" : " takes no argument"));
    }
    const Json made = report.make(view, argument);
    if (!json) return report.print(made);
    return Line(made);
  }
  if (const AdminCommand* command = FindAdminCommand(word)) {
    if (request.uid != 0) {
      absl::Status refused = absl::PermissionDeniedError(
          absl::StrCat(word, ": only root may change something at the server"));
      Audit(view, request, absl::StrCat("uid ", request.uid), refused);
      return refused;
    }
    const std::string by = absl::StrCat("uid ", request.uid);
    absl::StatusOr<std::string> done = command->run(view, argument, by);
    Audit(view, request, by, done);
    if (!done.ok() || !json) return done;
    absl::string_view said = *done;
    absl::ConsumeSuffix(&said, "\n");
    return Line(Json{{"done", std::string(said)}});
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown request `", word, "`; ", kWords));
}

}  // namespace dafs::server
