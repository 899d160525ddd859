// DNS as a name service: SRV records of _dafs._tcp.NAME are the locations, in the order of RFC 2782
// (of one priority, the heavier first), and its TXT record has the path: "path=/export". Without
// one it is the root (A.4.2). Spec: A.6. Blocks for at most NamesConf::timeout.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/names/location.h"
#include "client/names/names_conf.h"

namespace dafs::names {

// The owner of the records. `domain`: of a name without a dot; may be empty. kInvalidArgument: no
// DNS name.
absl::StatusOr<std::string> SrvName(const std::string& name, const std::string& domain);

// With the addresses of the hosts, which the same servers resolve. kNotFound: no such record.
// kUnavailable: no server answered, or not with a DNS reply. kInvalidArgument: the records are
// wrong, or more than kMostLocations.
absl::StatusOr<std::vector<Located>> AskDns(const NamesConf& conf, const std::string& name);

}  // namespace dafs::names
