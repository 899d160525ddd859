// The records with which a name service has the locations of a name: what an administrator enters
// there. The inverse of name_file.h, dns_service.h and ldap_service.h.
// Spec: A.1 (a server advertises its locations), A.5. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "client/names/location.h"

namespace dafs::names {

enum class RecordForm : uint8_t {
  kFile,  // a line of the file of names
  kDns,   // lines of a zone file. DNS does not tell transports apart
  kLdif,  // entries for ldapadd(1), in the schema of share/ldap
};

// The records of `name`: its 1 to kMostLocations `locations` in their order, which have one path.
// `base`: of kLdif, the entry above the names. kInvalidArgument: the form cannot express them; says
// why.
absl::StatusOr<std::string> RecordsOf(RecordForm form, const std::string& name,
                                      std::span<const Location> locations, const std::string& base);

}  // namespace dafs::names
