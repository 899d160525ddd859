#include "client/names/services.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/names/dns_service.h"
#include "client/names/hosts.h"
#include "client/names/ldap_service.h"
#include "client/names/name_file.h"

namespace dafs::names {
namespace {

absl::StatusOr<std::vector<Located>> AskService(Service service, const NamesConf& conf,
                                                const std::string& name) {
  switch (service) {
    case Service::kFile:
      return AskFile(conf, name);
    case Service::kDns:
      return AskDns(conf, name);
    case Service::kLdap:
      break;
  }
  return AskLdap(conf, name);
}

Result ResultOf(const absl::Status& status) {
  if (status.ok()) return Result::kFound;
  if (absl::IsNotFound(status)) return Result::kUnknown;
  return absl::IsUnavailable(status) ? Result::kAway : Result::kBad;
}

}  // namespace

Answers AskServices(const NamesConf& conf, const std::string& name, bool all) {
  Answers answers;
  answers.name = name;
  answers.refresh = conf.refresh;
  for (const Service service : conf.order) {
    absl::StatusOr<std::vector<Located>> locations = AskService(service, conf, name);
    Answer& answer = answers.services.emplace_back();
    answer.service = ServiceName(service);
    answer.result = ResultOf(locations.status());
    answer.message = std::string(locations.status().message());
    if (!locations.ok()) continue;
    answer.locations = *std::move(locations);
    ResolveHosts(answer.locations, conf.timeout);
    if (!all) break;
  }
  return answers;
}

}  // namespace dafs::names
