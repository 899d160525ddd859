#include "fuse/kernel/acls/default_acl.h"

#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

#include <algorithm>
#include <cstring>

namespace dafs::fuse {

uint32_t ModeUnderAcl(uint32_t mode, std::string_view value) {
  uint32_t owner = 0, group = 0, other = 0, mask = 7;
  value.remove_prefix(std::min(sizeof(posix_acl_xattr_header), value.size()));
  while (value.size() >= sizeof(posix_acl_xattr_entry)) {
    posix_acl_xattr_entry entry;
    std::memcpy(&entry, value.data(), sizeof entry);
    value.remove_prefix(sizeof entry);
    const uint32_t perm = le16toh(entry.e_perm) & 7u;
    switch (le16toh(entry.e_tag)) {
      case ACL_USER_OBJ:
        owner = perm;
        break;
      case ACL_GROUP_OBJ:
        group = perm;
        break;
      case ACL_MASK:
        mask = perm | 8;  // 8: there is a mask, which replaces the group's bits
        break;
      case ACL_OTHER:
        other = perm;
        break;
      default:
        break;
    }
  }
  if (mask & 8) group = mask & 7;
  return mode & (~0777u | owner << 6 | group << 3 | other);
}

}  // namespace dafs::fuse
