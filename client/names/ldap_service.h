// LDAP as a name service, with the schema of share/ldap/dafs.schema. An entry of class
// dafsNameSpaceEntry has the name, and each of its children of class dafsLocation is one location.
// Spec: A.7. Blocks for at most NamesConf::timeout; AskLdap names the exception.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/names/location.h"
#include "client/names/names_conf.h"

namespace dafs::names {

// The search filter for the entry of `name`. Special characters are escaped (RFC 4515).
std::string NameFilter(const std::string& name);

// The attributes of a child entry. An empty one is missing there.
struct LdapValues {
  std::string type, host, qualifier, path, version;
};
// kInvalidArgument: names the wrong attribute and the reason.
absl::StatusOr<Location> LocationOf(const LdapValues& values);

// The locations of `name`, sorted by the text of the RDNs of the children. Their hosts are not
// resolved yet. libldap may block for longer while it resolves the host of the LDAP server.
// kNotFound: no such entry. kUnavailable: no answer. kInvalidArgument: an entry is wrong, or there
// are more than kMostLocations. kFailedPrecondition: the server refuses, or names.conf is wrong.
absl::StatusOr<std::vector<Located>> AskLdap(const NamesConf& conf, const std::string& name);

}  // namespace dafs::names
