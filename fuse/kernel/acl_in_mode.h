// Whether an ACL of the protocol is no more than a mode. Spec: 6.1.4 (ACEs), 4.4.3.
#pragma once

#include <cstdint>
#include <span>

#include "wire/protocol/types.h"

namespace dafs::fuse {

// True: whoever asks for POSIX ACLs of an object with these bits and this ACL is told that it has
// none. False also where one of those might be told: what is not plain is to be asked for. That is
// everything but one permission for each of OWNER@, GROUP@ and EVERYONE@, of just these bits, and
// what they are denied. A permission said twice is not plain: dafsd's ACLs that have a mask and
// name nobody look like that (server/store/attributes/acl_mapping.h). Pure; any thread.
bool IsAclInMode(std::span<const wire::Ace> acl, uint32_t mode);

}  // namespace dafs::fuse
