#include "server/store/objects/failover_location.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/text.h"
#include "wire/dat/address.h"
#include "wire/protocol/limits.h"

namespace dafs::server {
namespace {

constexpr absl::string_view kForm = "HOST:/PATH or HOST:PORT:/PATH";

bool IsPath(absl::string_view path) {
  if (path == "/") return true;
  for (absl::string_view part : absl::StrSplit(path.substr(1), '/')) {
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
  }
  return true;
}

wire::Pathname PathnameOf(std::string_view path) {
  wire::Pathname parts;
  for (absl::string_view part : absl::StrSplit(Text(path), '/', absl::SkipEmpty())) {
    parts.emplace_back(part);
  }
  return parts;
}

}  // namespace

bool IsServerName(std::string_view text) {
  std::string host;
  uint16_t port = dat::kDefaultPort;
  return text.size() <= 255 &&
         std::all_of(text.begin(), text.end(),
                     [](char c) {
                       return absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '/' &&
                              c != ',';
                     }) &&
         dat::SplitHostPort(text, &host, &port).ok() && !host.empty() && port != 0;
}

absl::Status ParseFailover(std::string_view value, std::vector<FailoverLocation>* locations) {
  for (absl::string_view one : absl::StrSplit(Text(value), '+')) {
    const size_t colon = one.find(":/");
    const absl::string_view server = one.substr(0, colon);
    if (colon == absl::string_view::npos || !IsServerName(Std(server))) {
      return absl::InvalidArgumentError(
          absl::StrCat("failover= takes ", kForm, ", separated by '+', not '", one, "'"));
    }
    const absl::string_view path = one.substr(colon + 1);
    if (!IsPath(path)) {
      return absl::InvalidArgumentError(
          absl::StrCat("failover=: '", path, "' is not the name of an export"));
    }
    locations->push_back({std::string(server), std::string(path)});
  }
  if (locations->size() > kMostFailoverLocations) {
    return absl::InvalidArgumentError(
        absl::StrCat("failover= takes at most ", kMostFailoverLocations, " locations"));
  }
  return absl::OkStatus();
}

std::vector<wire::FsLocations> AttributeOf(std::string_view name,
                                           const std::vector<FailoverLocation>& locations) {
  wire::FsLocations all;
  all.fs_root = PathnameOf(name);
  for (const FailoverLocation& each : locations) {
    all.locations.push_back({each.server, PathnameOf(each.path)});
  }
  return {std::move(all)};
}

}  // namespace dafs::server
