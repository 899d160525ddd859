// LDAP as a name service, with the schema of share/ldap/dafs.schema: an entry of class
// dafsNameSpaceEntry has the name, and each of its children of class dafsLocation is one location.
// Spec: A.7. Blocks for at most NamesConf::timeout, but see AskLdap.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/names/location.h"
#include "client/names/names_conf.h"

namespace dafs::names {

// The filter by which an entry of `name` is found. Special characters are escaped (RFC 4515).
std::string NameFilter(const std::string& name);

// The values of a child entry; empty: it has no such attribute.
struct LdapValues {
  std::string type, host, qualifier, path, version;
};
// kInvalidArgument: which attribute is wrong, and why.
absl::StatusOr<Location> LocationOf(const LdapValues& values);

// In the order of the RDNs of the children, as texts; the hosts are not resolved. libldap may block
// longer while it looks up the server's host. kNotFound: no such entry. kUnavailable: no answer.
// kInvalidArgument: an entry is wrong, or there are more than kMostLocations.
// kFailedPrecondition: the server refuses, or names.conf is wrong.
absl::StatusOr<std::vector<Located>> AskLdap(const NamesConf& conf, const std::string& name);

}  // namespace dafs::names
