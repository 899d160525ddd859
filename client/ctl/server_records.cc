#include "client/ctl/server_records.h"

#include <arpa/inet.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/names/records.h"
#include "runtime/host_name.h"
#include "runtime/status_macros.h"
#include "wire/dat/address.h"
#include "wire/protocol/header.h"
#include "wire/protocol/name_check.h"

namespace dafs::client {
namespace {

using Json = nlohmann::json;

// dafsd supports one version of the protocol (wire::kProtocolVersion). With several, each would
// have locations of its own (A.4.3).
constexpr char kVersion[] = "1.0";
static_assert(wire::kProtocolVersion == 1);

absl::StatusOr<Json> ReportOf(const std::string& text, const char* member) {
  Json report = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object() || !report.contains(member) || !report[member].is_array()) {
    return absl::DataLossError(absl::StrCat("dafsd did not answer with its ", member));
  }
  return report[member];
}

// Returns OK if `path` is one of the exports, is below one or leads to one.
absl::Status CheckExported(const std::string& path, const Json& exports) {
  if (!wire::IsUtf8(path)) return absl::InvalidArgumentError("the path must be UTF-8");
  std::vector<std::string> names;
  for (const Json& one : exports) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string()) {
      return absl::DataLossError("dafsd did not answer with the names of its exports");
    }
    const std::string name = one["name"];
    // Below it, or above: the server shows the directories that lead to its exports.
    if (path == "/" || name == "/" || (path + "/").starts_with(name + "/") ||
        (name + "/").starts_with(path + "/")) {
      return absl::OkStatus();
    }
    names.push_back(name);
  }
  return absl::NotFoundError(absl::StrCat("dafsd does not export ", path, "; its exports: ",
                                          names.empty() ? "none" : absl::StrJoin(names, " ")));
}

// Whether clients of other machines cannot reach the host.
bool IsLocal(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost" ||
         absl::StartsWithIgnoreCase(host, "fe80:");
}

// As names::CheckHost; an address must be one that clients can connect to.
absl::Status CheckHost(const std::string& host) {
  RETURN_IF_ERROR(names::CheckHost(host));
  in6_addr address;
  const std::string plain = host.substr(0, host.find('%'));
  if (host.find(':') != host.npos && inet_pton(AF_INET6, plain.c_str(), &address) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--host ", host, ": expected a host name or an address, without a port or brackets"));
  }
  if (host == "0.0.0.0" || host == "::") {
    return absl::InvalidArgumentError(
        absl::StrCat("--host ", host, " is not an address of a server"));
  }
  return absl::OkStatus();
}

// `at`: a listener, such as "tcp:0.0.0.0:20149".
absl::StatusOr<names::Location> LocationAt(const RecordsRequest& request, const std::string& at) {
  names::Location location;
  const size_t colon = at.find(':');
  location.transport = at.starts_with("rdma:") ? names::kRdma : names::kIwarp;
  if (colon == std::string::npos ||
      !dat::SplitHostPort(std::string_view(at).substr(colon + 1), &location.host, &location.port)
           .ok()) {
    return absl::DataLossError(absl::StrCat("dafsd listens on ", at, ", which is not an address"));
  }
  const bool is_every = location.host == "0.0.0.0" || location.host == "::";
  if (!request.host.empty()) {
    location.host = request.host;
  } else if (is_every) {
    location.host = HostName();
  }
  location.path = request.path;
  location.version = kVersion;
  return location;
}

std::string JsonOf(const std::vector<names::Location>& locations) {
  Json rows = Json::array();
  for (const names::Location& one : locations) {
    rows.push_back({{"transport", one.transport},
                    {"host", one.host},
                    {"port", one.port},
                    {"path", one.path},
                    {"version", one.version}});
  }
  return Json{{"locations", std::move(rows)}}.dump() + "\n";
}

}  // namespace

void AddRecordsCommand(CLI::App& server, RecordsRequest& request) {
  CLI::App* const command = server.add_subcommand(
      "records", "Print the records with which a name service leads to this server");
  command->fallthrough();  // --json and --socket may follow
  command->add_option("NAME", request.name, "the DAFS name, as in mount -t dafs NAME DIR")
      ->required();
  command->add_option("EXPORT", request.path, "the path that the name stands for")
      ->capture_default_str();
  command->add_option("--host", request.host,
                      "the host of all locations; default: the name of this machine, or the "
                      "address if dafsd listens on one");
  CLI::Option* const dns = command->add_flag("--dns", request.dns, "lines of a zone file");
  CLI::Option* const ldif =
      command->add_flag("--ldif", request.ldif, "entries for ldapadd(1)")->excludes(dns);
  command->add_option("--base", request.base, "with --ldif: the entry above the names")
      ->needs(ldif);
}

absl::StatusOr<std::vector<names::Location>> LocationsOf(const RecordsRequest& request,
                                                         const std::string& status,
                                                         const std::string& exports) {
  ASSIGN_OR_RETURN(const Json listens, ReportOf(status, "listens"));
  ASSIGN_OR_RETURN(const Json exported, ReportOf(exports, "exports"));
  RecordsRequest checked = request;
  ASSIGN_OR_RETURN(checked.path, names::CheckPath(request.path));
  RETURN_IF_ERROR(CheckExported(checked.path, exported));
  std::vector<names::Location> locations;
  for (const Json& at : listens) {
    ASSIGN_OR_RETURN(names::Location location,
                     LocationAt(checked, at.is_string() ? at.get<std::string>() : ""));
    RETURN_IF_ERROR(CheckHost(location.host));
    // With --host, or for IPv4 and IPv6, several listeners are one location.
    if (std::find(locations.begin(), locations.end(), location) == locations.end()) {
      locations.push_back(std::move(location));
    }
  }
  return locations;
}

absl::Status PrintRecords(const RecordsRequest& request,
                          const std::vector<names::Location>& locations, bool json) {
  RETURN_IF_ERROR(names::CheckName(request.name));
  for (const names::Location& one : locations) {
    if (!IsLocal(one.host)) continue;
    std::fprintf(stderr,
                 "dafsctl: warning: other machines cannot reach %s; let dafsd listen on another "
                 "address (--listen), or give --host\n",
                 one.host.c_str());
  }
  if (json) {
    std::fputs(JsonOf(locations).c_str(), stdout);
    return absl::OkStatus();
  }
  const names::RecordForm form = request.dns    ? names::RecordForm::kDns
                                 : request.ldif ? names::RecordForm::kLdif
                                                : names::RecordForm::kFile;
  ASSIGN_OR_RETURN(const std::string records,
                   names::RecordsOf(form, request.name, locations, request.base));
  std::fputs(records.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace dafs::client
