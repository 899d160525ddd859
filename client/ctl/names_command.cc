#include "client/ctl/names_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/names/answers.h"
#include "client/names/location.h"
#include "client/names/name_query.h"
#include "runtime/files/installed_file.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

std::string LocationLine(const names::Located& one) {
  std::string text = absl::StrCat("  ", names::ToString(one.location));
  if (!one.location.transport.empty()) absl::StrAppend(&text, ", ", one.location.transport);
  if (!one.location.version.empty()) absl::StrAppend(&text, ", version ", one.location.version);
  return absl::StrCat(
      text, ": ", one.addresses.empty() ? one.problem : absl::StrJoin(one.addresses, " "), "\n");
}

std::string AnswerText(const names::Answer& answer) {
  std::string text = absl::StrCat(answer.service, ": ");
  switch (answer.result) {
    case names::Result::kFound:
      absl::StrAppend(&text, answer.locations.size(),
                      answer.locations.size() == 1 ? " location" : " locations");
      break;
    case names::Result::kUnknown:
      absl::StrAppend(&text, "unknown: ", answer.message);
      break;
    case names::Result::kAway:
      absl::StrAppend(&text, "no answer: ", answer.message);
      break;
    case names::Result::kBad:
      absl::StrAppend(&text, "wrong: ", answer.message);
      break;
  }
  text += "\n";
  for (const names::Located& one : answer.locations) text += LocationLine(one);
  return text;
}

}  // namespace

CLI::App* AddNamesCommand(CLI::App& app, NamesRequest& request) {
  CLI::App* const command =
      app.add_subcommand("names", "Show what each name service answers for a DAFS name");
  command->add_option("NAME", request.name, "a DAFS name, as in mount -t dafs NAME DIR")
      ->required();
  command->add_option("--conf", request.conf, "the configuration; default: /etc/dafs/names.conf");
  command->add_flag("--json", request.json, "print JSON");
  return command;
}

absl::Status ShowNames(const NamesRequest& request) {
  RETURN_IF_ERROR(names::CheckName(request.name));
  ASSIGN_OR_RETURN(const std::string helper, FindInstalledFile("dafs-names", "names"));
  ASSIGN_OR_RETURN(
      const names::Answers answers,
      names::RunNameQuery(
          {.helper = helper, .name = request.name, .conf = request.conf, .all = true}));
  if (request.json) {
    std::fputs(names::ToJson(answers).c_str(), stdout);
  } else {
    for (const names::Answer& answer : answers.services) {
      std::fputs(AnswerText(answer).c_str(), stdout);
    }
  }
  std::fflush(stdout);
  if (names::FirstFound(answers) != nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(request.name, ": no service has a location for it"));
}

}  // namespace dafs::client
