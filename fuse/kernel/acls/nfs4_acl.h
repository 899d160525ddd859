// Converts the ACL attribute to and from the form of nfs4_getfacl(1) and nfs4_setfacl(1): the
// extended attribute "system.nfs4_acl", an XDR array of nfsace4 (RFC 7530 6.2.1, RFC 4506), as on
// an NFS mount. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/protocol/types.h"

namespace dafs::fuse {

inline constexpr char kNfs4AclXattr[] = "system.nfs4_acl";

std::string EncodeNfs4Acl(const std::vector<wire::Ace>& acl);

// Returns nullopt if the bytes are not such an array, or if it is longer than the protocol carries.
std::optional<std::vector<wire::Ace>> DecodeNfs4Acl(std::span<const std::byte> value);

}  // namespace dafs::fuse
