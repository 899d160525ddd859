// Decides whether a mode expresses all of an ACL of the protocol. Spec: 6.1.4 (ACEs), 4.4.3.
#pragma once

#include <cstdint>
#include <span>

#include "wire/protocol/types.h"

namespace dafs::fuse {

// Returns true if an object with these mode bits and this ACL has no POSIX ACL to report. Returns
// false if that is not certain: the caller then has to request the POSIX ACL. It is certain only if
// the ACL has one permission for each of OWNER@, GROUP@ and EVERYONE@, with exactly these bits, and
// otherwise only denials for these three. A repeated permission is not certain: dafsd's ACLs that
// have a mask and no named user or group look like that (server/store/attributes/acl_mapping.h).
// Pure; any thread.
bool IsAclInMode(std::span<const wire::Ace> acl, uint32_t mode);

}  // namespace dafs::fuse
