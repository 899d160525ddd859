// /etc/dafs/names.conf: the name services that a client queries, their order and addresses.
// Spec: A.6 (name space repository), A.5-04 (refresh). Values; ReadNamesConf may block on a disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dafs::names {

inline constexpr char kDefaultConf[] = "/etc/dafs/names.conf";

enum class Service : uint8_t { kFile, kDns, kLdap };
// "file", "dns", "ldap".
const char* ServiceName(Service service);

struct NamesConf {
  std::vector<Service> order = {Service::kFile, Service::kDns};
  std::string file = "/etc/dafs/names";
  std::string dns_servers;   // ADDRESS[:PORT],...; empty: those of resolv.conf(5)
  std::string dns_domain;    // of names without a dot; empty: the first one of resolv.conf(5)
  std::string ldap_uri;      // empty: that of ldap.conf(5)
  std::string ldap_base;     // empty: that of ldap.conf(5)
  std::string ldap_bind_dn;  // empty: anonymous
  std::string ldap_password_file;
  absl::Duration timeout = absl::Seconds(5);   // of one service
  absl::Duration refresh = absl::Minutes(10);  // of a mounted name
  bool operator==(const NamesConf&) const = default;
};

// `file` is for messages: kInvalidArgument names the file, the line and the fault.
absl::StatusOr<NamesConf> ParseNamesConf(std::string_view text, const std::string& file);
// Reads `file`; empty: the default file, or the default values if that is missing.
absl::StatusOr<NamesConf> ReadNamesConf(const std::string& file);

// The text of a file. kNotFound: there is none. kInvalidArgument: it has more than 1 MiB.
absl::StatusOr<std::string> ReadTextFile(const std::string& file);

}  // namespace dafs::names
