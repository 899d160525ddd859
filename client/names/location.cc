#include "client/names/location.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "wire/protocol/name_check.h"

namespace dafs::names {
namespace {

constexpr size_t kMostHostBytes = 255;
constexpr size_t kMostPathBytes = 4096;

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\x7f'; }

absl::Status BadLocation(std::string why) { return absl::InvalidArgumentError(why); }

// 0: `text` is not a port.
uint16_t PortOfText(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && stop == end ? port : 0;
}

}  // namespace

absl::Status CheckName(std::string_view name) {
  if (name.empty()) return BadLocation("a DAFS name must not be empty");
  if (name.size() > kMostNameBytes) return BadLocation("a DAFS name has at most 255 bytes");
  if (!wire::IsUtf8(name)) return BadLocation("a DAFS name must be UTF-8");
  if (name.find_first_of("/:") != name.npos || std::any_of(name.begin(), name.end(), IsControl)) {
    return BadLocation("a DAFS name must not contain '/', ':' or control characters");
  }
  return absl::OkStatus();
}

absl::Status CheckHost(std::string_view host) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("-._:%").find(c) != std::string_view::npos;
  };
  if (host.empty()) return BadLocation("no server");
  if (host.size() > kMostHostBytes || !std::all_of(host.begin(), host.end(), is_plain)) {
    return BadLocation("the server is neither a host name nor an address");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckPath(std::string_view path) {
  if (path.size() > kMostPathBytes) return BadLocation("the path has more than 4096 bytes");
  if (std::any_of(path.begin(), path.end(), IsControl)) {
    return BadLocation("the path must not contain control characters");
  }
  std::string checked(path);
  if (!path.starts_with("/")) checked.insert(0, 1, '/');
  while (checked.size() > 1 && checked.ends_with("/")) checked.pop_back();
  for (std::string_view rest = checked; !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view component = rest.substr(0, rest.find('/'));
    if (component == "." || component == "..") {
      return BadLocation("the path must not contain '.' or '..'");
    }
    rest.remove_prefix(component.size());
  }
  return checked;
}

absl::StatusOr<uint16_t> ParseQualifier(std::string_view qualifier) {
  if (qualifier.empty() || qualifier == "dafs") return uint16_t{0};
  const uint16_t port = PortOfText(qualifier);
  if (port == 0) return BadLocation(std::string(qualifier.substr(0, 64)) + " is not a port");
  return port;
}

bool IsSpoken(const std::string& version) {
  return version.empty() || version == "1" || version.starts_with("1.");
}

absl::StatusOr<Location> ParseServerPath(std::string_view text) {
  Location location;
  std::string_view rest = text;
  if (rest.starts_with("[")) {
    const size_t close = rest.find(']');
    if (close == rest.npos) return BadLocation("no closing bracket");
    location.host = std::string(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
  } else {
    const size_t end = rest.find(':');
    if (end == rest.npos || rest.substr(0, end).find('/') != rest.npos) {
      return BadLocation("expected SERVER[:PORT]:/EXPORT");
    }
    location.host = std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  if (location.host.empty()) return BadLocation("no server");
  if (!rest.starts_with(":")) return BadLocation("no ':' after the server");
  rest.remove_prefix(1);
  if (!rest.starts_with("/")) {
    const size_t end = rest.find(":/");
    if (end == rest.npos) {
      return BadLocation("no ':/EXPORT' (write an IPv6 address in brackets)");
    }
    const std::string_view port = rest.substr(0, end);
    location.port = PortOfText(port);
    if (location.port == 0) return BadLocation(std::string(port) + " is not a port");
    rest.remove_prefix(end + 1);
  }
  ASSIGN_OR_RETURN(location.path, CheckPath(rest));
  return location;
}

absl::StatusOr<Location> ParseLocation(std::string_view text) {
  std::string transport;
  for (const auto& [scheme, type] : {std::pair("tcp://", kIwarp), std::pair("rdma://", kRdma)}) {
    if (!text.starts_with(scheme)) continue;
    transport = type;
    text.remove_prefix(std::string_view(scheme).size());
  }
  std::string plain(text);
  if (!transport.empty()) {  // HOST[:PORT]/PATH
    const size_t slash = std::min(plain.find('/'), plain.size());
    plain.insert(slash, slash == plain.size() ? ":/" : ":");
  }
  ASSIGN_OR_RETURN(Location location, ParseServerPath(plain));
  RETURN_IF_ERROR(CheckHost(location.host));
  location.transport = std::move(transport);
  return location;
}

std::string ToString(const Location& location) {
  const bool v6 = location.host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", location.host, v6 ? "]" : "", location.port == 0 ? "" : ":",
                      location.port == 0 ? "" : std::to_string(location.port), ":", location.path);
}

}  // namespace dafs::names
