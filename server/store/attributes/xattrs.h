// The extended attributes of one object. The functions make the system calls as the thread's
// identity, so that the kernel decides which callers may list, read and write them.
// Spec: 4.1.5; docs/decisions.md, Server.
//
// Names are the kernel's, with their name space: "user.x", "trusted.x", "security.x",
// "system.posix_acl_access"; wire/protocol/attribute_names.h maps other names. Callers cannot see
// the server's own attributes ("trusted.dafs."). For root, unless squashed, the calls have the
// capabilities for trusted.* and security.*, which identities do not have
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

// XATTR_SIZE_MAX, the size of the largest value.
inline constexpr size_t kXattrMost = 65536;
inline constexpr size_t kXattrNameMost = 255;  // XATTR_NAME_MAX

// The flags of setxattr(2).
enum class XattrMode : uint8_t { kAny, kCreate, kReplace };

// NOENT: there is no attribute of this name, or the caller may not see it. NOTSUPP: the file system
// has no such attributes. Other errors come from the kernel. After an error `value` is empty.
wire::DafsStatus GetXattr(const Object& object, const std::string& name, std::string* value);
// The same for "system.posix_acl_...", which needs no mapping of the name: of an object, or of
// `path` in the thread's working directory. A symbolic link is not followed.
wire::DafsStatus GetAclXattr(const Object& object, const char* name, std::string* value);
wire::DafsStatus GetAclXattr(const char* path, const char* name, std::string* value);
wire::DafsStatus GetXattrSize(const Object& object, const std::string& name, size_t* size);

// EXIST, NOENT: by `mode`. FBIG: the value is larger than kXattrMost.
wire::DafsStatus SetXattr(const Object& object, const std::string& name, std::string_view value,
                          XattrMode mode);
wire::DafsStatus RemoveXattr(const Object& object, const std::string& name);

// Lists the names that are valid in the protocol by `rule`.
wire::DafsStatus ListXattrs(const Object& object, wire::NameRule rule,
                            std::vector<std::string>* names);

// Returns whether objects of this type and file system can have extended attributes.
bool SupportsXattrs(const Object& object);

}  // namespace dafs::server
