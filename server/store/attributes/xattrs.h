// The extended attributes of one object, by system calls, as the identity the thread has taken: the
// kernel says who may read, write and see them. Spec: 4.1.5; ARCHITECTURE "named attributes".
//
// Names are the kernel's, with their name space: "user.x", "trusted.x", "security.x",
// "system.posix_acl_access"; others go by wire/protocol/attribute_names.h. What the server keeps
// for itself
// ("trusted.dafs.") does not exist for callers. For root, unless squashed, the kernel is asked with
// the capabilities that trusted.* and security.* need, which identities do not have
// (server/store/system/identity.h). Usable from any thread. May block on the file system.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/objects/object.h"
#include "wire/protocol/name_check.h"
#include "wire/protocol/status.h"

namespace dafs::server {

// XATTR_SIZE_MAX: no value is larger, so that one always fits.
inline constexpr size_t kXattrMost = 65536;
inline constexpr size_t kXattrNameMost = 255;  // XATTR_NAME_MAX

// How xattrs are set: the flags of setxattr(2).
enum class XattrMode : uint8_t { kAny, kCreate, kReplace };

// NOENT: there is none of this name, or none that this caller may see. NOTSUPP: the file system
// has no such attributes. Others as the kernel says. `value` is then empty.
wire::DafsStatus GetXattr(const Object& object, const std::string& name, std::string* value);
// The same of "system.posix_acl_...", the name being the kernel's: of an object, and of what `path`
// leads to, in the thread's working directory (a symbolic link itself).
wire::DafsStatus GetAclXattr(const Object& object, const char* name, std::string* value);
wire::DafsStatus GetAclXattr(const char* path, const char* name, std::string* value);
wire::DafsStatus GetXattrSize(const Object& object, const std::string& name, size_t* size);

// EXIST, NOENT: by `mode`. FBIG: the value is larger than kXattrMost.
wire::DafsStatus SetXattr(const Object& object, const std::string& name, std::string_view value,
                          XattrMode mode);
wire::DafsStatus RemoveXattr(const Object& object, const std::string& name);

// The names that can be names on the wire, by `rule`.
wire::DafsStatus ListXattrs(const Object& object, wire::NameRule rule,
                            std::vector<std::string>* names);

// Whether objects of this kind and file system can have extended attributes at all.
bool SupportsXattrs(const Object& object);

}  // namespace dafs::server
