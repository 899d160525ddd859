// DNS as a name service. The SRV records of _dafs._tcp.NAME are the locations, in the order of RFC
// 2782; among those of equal priority the one with the most weight comes first. A TXT record of the
// same name gives the path: "path=/export". Without it the path is the root (A.4.2).
// Spec: A.6. Blocks for at most NamesConf::timeout.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/names/location.h"
#include "client/names/names_conf.h"

namespace dafs::names {

// The owner name of the records. A `name` without a dot is in `domain`, which may be empty.
// kInvalidArgument: no valid DNS name.
absl::StatusOr<std::string> SrvName(const std::string& name, const std::string& domain);

// The locations of `name`, with the addresses of their hosts, which the same DNS servers resolve.
// kNotFound: there is no such record. kUnavailable: no server sent a valid DNS reply.
// kInvalidArgument: the records are wrong, or there are more than kMostLocations.
absl::StatusOr<std::vector<Located>> AskDns(const NamesConf& conf, const std::string& name);

}  // namespace dafs::names
