// What a directory's default ACL makes of the mode of a new object in it (acl(5), "object creation
// and default ACLs"). Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace dafs::fuse {

inline constexpr char kDefaultAclXattr[] = "system.posix_acl_default";

// The permission bits of `mode` that are left under the ACL in `value`, a value of the attribute
// system.posix_acl_default; other bits stay. A value that is none takes all permissions.
uint32_t ModeUnderAcl(uint32_t mode, std::string_view value);

}  // namespace dafs::fuse
