// POSIX ACLs as Linux keeps them in the extended attributes system.posix_acl_access and
// system.posix_acl_default (acl(5), <linux/posix_acl_xattr.h>). Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dafs::server {

inline constexpr char kAccessAclXattr[] = "system.posix_acl_access";
inline constexpr char kDefaultAclXattr[] = "system.posix_acl_default";

enum class AclTag : uint16_t {
  kUserObj = 0x01,   // the owner
  kUser = 0x02,      // a named user
  kGroupObj = 0x04,  // the owning group
  kGroup = 0x08,     // a named group
  kMask = 0x10,      // upper limit of the rights of all entries except owner and others
  kOther = 0x20,
};

inline constexpr uint8_t kAclRead = 4;
inline constexpr uint8_t kAclWrite = 2;
inline constexpr uint8_t kAclExecute = 1;

struct PosixAcl {
  struct Entry {
    AclTag tag = AclTag::kOther;
    uint8_t perm = 0;  // kAclRead ...
    uint32_t id = 0;   // kUser, kGroup
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::vector<Entry> entries;  // in the order of their tags, then of their ids

  friend bool operator==(const PosixAcl&, const PosixAcl&) = default;
};

// Returns the ACL that is equivalent to the mode bits.
PosixAcl AclFromMode(uint32_t mode);

// Convert to and from the value of the attribute. DecodeAcl returns nullopt for an invalid value.
std::string EncodeAcl(const PosixAcl& acl);
std::optional<PosixAcl> DecodeAcl(std::string_view value);

}  // namespace dafs::server
