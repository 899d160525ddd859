// The ACL attribute of an object: read and set as POSIX ACLs of the file system, which enforces
// them. Spec: 6.1.5 ACL, 4.4.3; acl_mapping.h. Usable from any thread. May block on the file
// system.
#pragma once

#include <vector>

#include "server/store/objects/object.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// Where the file system has no ACLs, `mode` (with the type) says it. INVAL for symbolic links,
// which have neither. NOTSUPP: more entries than a message may have (file systems take thousands).
wire::DafsStatus GetAcl(const Object& object, uint32_t mode, std::vector<wire::Ace>* aces);

// The same of an entry of the thread's working directory (server/store/system/working_directory.h),
// by its name: it need not be opened for that.
wire::DafsStatus GetAclOfEntry(const char* name, uint32_t mode, std::vector<wire::Ace>* aces);

// As the thread's identity. What cannot be mapped exactly is NOTSUPP and changes nothing.
wire::DafsStatus SetAcl(const Object& object, const std::vector<wire::Ace>& aces);

}  // namespace dafs::server
