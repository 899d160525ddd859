// Reads and sets the ACL attribute of an object as POSIX ACLs of the file system, which enforces
// them. Spec: 6.1.5 ACL, 4.4.3; acl_mapping.h. Usable from any thread. May block on the file
// system.
#pragma once

#include <vector>

#include "server/store/objects/object.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// Without ACLs in the file system, the ACL is made from `mode` (which includes the type). INVAL for
// symbolic links, which have neither. NOTSUPP: more entries than a message may have (file systems
// accept thousands).
wire::DafsStatus GetAcl(const Object& object, uint32_t mode, std::vector<wire::Ace>* aces);

// The same for an entry of the thread's working directory
// (server/store/system/working_directory.h), by its name, so that the caller need not open it.
wire::DafsStatus GetAclOfEntry(const char* name, uint32_t mode, std::vector<wire::Ace>* aces);

// Sets the ACL as the thread's identity. NOTSUPP, with nothing changed, if the ACL has no exact
// POSIX equivalent.
wire::DafsStatus SetAcl(const Object& object, const std::vector<wire::Ace>& aces);

}  // namespace dafs::server
