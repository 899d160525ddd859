// Applies a directory's default ACL to the mode of a new object in it (acl(5), "object creation and
// default ACLs"). Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace dafs::fuse {

inline constexpr char kDefaultAclXattr[] = "system.posix_acl_default";
inline constexpr char kAccessAclXattr[] = "system.posix_acl_access";

// Returns `mode` with the permission bits that are left under the ACL in `value`, a value of the
// attribute system.posix_acl_default. Other bits do not change. A value that is not an ACL leaves
// no permissions.
uint32_t ModeUnderAcl(uint32_t mode, std::string_view value);

}  // namespace dafs::fuse
