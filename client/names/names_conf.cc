#include "client/names/names_conf.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/names/text_lines.h"
#include "runtime/files/whole_file.h"
#include "runtime/status_macros.h"

namespace dafs::names {
namespace {

constexpr size_t kMostFileBytes = 1 << 20;
constexpr size_t kMostValueBytes = 1024;

// The functions return why the value is bad; empty: it is not.

std::string SetOrder(NamesConf& conf, std::string_view value) {
  std::vector<Service> order;
  for (const std::string_view word : Words(value)) {
    const Service* found = nullptr;
    static constexpr std::array kAll = {Service::kFile, Service::kDns, Service::kLdap};
    for (const Service& one : kAll) {
      if (word == ServiceName(one)) found = &one;
    }
    if (found == nullptr || std::find(order.begin(), order.end(), *found) != order.end()) {
      return "expected file, dns and ldap, each at most once";
    }
    order.push_back(*found);
  }
  conf.order = std::move(order);
  return "";
}

template <auto kField>
std::string SetText(NamesConf& conf, std::string_view value) {
  conf.*kField = std::string(value);
  return "";
}

template <auto kField>
std::string SetFile(NamesConf& conf, std::string_view value) {
  if (!value.starts_with("/")) return "expected an absolute path";
  return SetText<kField>(conf, value);
}

template <auto kField, int kMost>
std::string SetSeconds(NamesConf& conf, std::string_view value) {
  int seconds = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, seconds);
  if (error != std::errc() || stop != end || seconds < 1 || seconds > kMost) {
    return absl::StrCat("expected seconds, 1 to ", kMost);
  }
  conf.*kField = absl::Seconds(seconds);
  return "";
}

struct Setting {
  std::string_view name;
  std::string (*set)(NamesConf&, std::string_view);
};

constexpr Setting kSettings[] = {
    {"order", SetOrder},
    {"file", SetFile<&NamesConf::file>},
    {"dns-servers", SetText<&NamesConf::dns_servers>},
    {"dns-domain", SetText<&NamesConf::dns_domain>},
    {"ldap-uri", SetText<&NamesConf::ldap_uri>},
    {"ldap-base", SetText<&NamesConf::ldap_base>},
    {"ldap-bind-dn", SetText<&NamesConf::ldap_bind_dn>},
    {"ldap-password-file", SetFile<&NamesConf::ldap_password_file>},
    // The three services together are within NameQuery's limit.
    {"timeout", SetSeconds<&NamesConf::timeout, 8>},
    {"refresh", SetSeconds<&NamesConf::refresh, 86400>},
};

std::string ApplyLine(NamesConf& conf, std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == line.npos) return "expected SETTING = VALUE";
  const std::string_view name = TrimLine(line.substr(0, equals));
  const std::string_view value = TrimLine(line.substr(equals + 1));
  for (const Setting& setting : kSettings) {
    if (setting.name != name) continue;
    if (value.empty() || value.size() > kMostValueBytes) return "expected 1 to 1024 bytes";
    return setting.set(conf, value);
  }
  return "no such setting";
}

}  // namespace

const char* ServiceName(Service service) {
  switch (service) {
    case Service::kFile:
      return "file";
    case Service::kDns:
      return "dns";
    case Service::kLdap:
      break;
  }
  return "ldap";
}

absl::StatusOr<NamesConf> ParseNamesConf(std::string_view text, const std::string& file) {
  NamesConf conf;
  std::string bad;
  ForEachLine(text, [&](int number, std::string_view line) {
    const std::string why = ApplyLine(conf, line);
    if (!why.empty()) {
      bad = absl::StrCat(file, ", line ", number, ": ", std::string(line.substr(0, 80)), ": ", why);
    }
    return why.empty();
  });
  if (bad.empty() && conf.ldap_bind_dn.empty() != conf.ldap_password_file.empty()) {
    bad = absl::StrCat(file, ": ldap-bind-dn and ldap-password-file need each other");
  }
  if (!bad.empty()) return absl::InvalidArgumentError(bad);
  return conf;
}

absl::StatusOr<NamesConf> ReadNamesConf(const std::string& file) {
  const std::string path = file.empty() ? kDefaultConf : file;
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (absl::IsNotFound(text.status()) && file.empty()) return NamesConf();
  RETURN_IF_ERROR(text.status());
  return ParseNamesConf(*text, path);
}

absl::StatusOr<std::string> ReadTextFile(const std::string& file) {
  return ReadWholeFile(file, kMostFileBytes, O_NONBLOCK);
}

}  // namespace dafs::names
