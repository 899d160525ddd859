#include "server/store/attributes/posix_acl.h"

#include <endian.h>
#include <linux/posix_acl_xattr.h>

#include <cstring>

namespace dafs::server {
namespace {

static_assert(sizeof(posix_acl_xattr_header) == 4 && sizeof(posix_acl_xattr_entry) == 8);

bool IsNamed(AclTag tag) { return tag == AclTag::kUser || tag == AclTag::kGroup; }

}  // namespace

PosixAcl AclFromMode(uint32_t mode) {
  PosixAcl acl;
  acl.entries = {{AclTag::kUserObj, static_cast<uint8_t>(mode >> 6 & 7), 0},
                 {AclTag::kGroupObj, static_cast<uint8_t>(mode >> 3 & 7), 0},
                 {AclTag::kOther, static_cast<uint8_t>(mode & 7), 0}};
  return acl;
}

std::string EncodeAcl(const PosixAcl& acl) {
  const posix_acl_xattr_header header = {htole32(POSIX_ACL_XATTR_VERSION)};
  std::string value(reinterpret_cast<const char*>(&header), sizeof header);
  for (const PosixAcl::Entry& entry : acl.entries) {
    posix_acl_xattr_entry raw;
    raw.e_tag = htole16(static_cast<uint16_t>(entry.tag));
    raw.e_perm = htole16(entry.perm);
    raw.e_id = htole32(IsNamed(entry.tag) ? entry.id : ~0u);
    value.append(reinterpret_cast<const char*>(&raw), sizeof raw);
  }
  return value;
}

std::optional<PosixAcl> DecodeAcl(std::string_view value) {
  posix_acl_xattr_header header;
  if (value.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, value.data(), sizeof header);
  value.remove_prefix(sizeof header);
  if (le32toh(header.a_version) != POSIX_ACL_XATTR_VERSION ||
      value.size() % sizeof(posix_acl_xattr_entry) != 0) {
    return std::nullopt;
  }
  PosixAcl acl;
  for (; !value.empty(); value.remove_prefix(sizeof(posix_acl_xattr_entry))) {
    posix_acl_xattr_entry raw;
    std::memcpy(&raw, value.data(), sizeof raw);
    PosixAcl::Entry entry;
    entry.tag = static_cast<AclTag>(le16toh(raw.e_tag));
    entry.perm = static_cast<uint8_t>(le16toh(raw.e_perm) & 7);
    if (IsNamed(entry.tag)) entry.id = le32toh(raw.e_id);
    acl.entries.push_back(entry);
  }
  return acl;
}

}  // namespace dafs::server
