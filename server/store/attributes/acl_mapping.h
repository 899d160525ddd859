// NFSv4 ACLs, the protocol's, from and to POSIX ACLs, the file system's.
// Spec: 4.4.3, 6.1.4 (ACEs), WIRE R90 (who); draft-ietf-nfsv4-acl-mapping-05.
//
// A POSIX ACL becomes ACEs as the mapping draft says: the effective rights of each entry, with DENY
// entries where a later entry would give more. With a mask and nobody named it gives the rights
// that some mode gives; the owning group is then allowed them twice, so that a client can tell that
// it is not the mode alone (fuse/kernel/acl_in_mode.h). The other way round, a list of ACEs is
// taken only if some POSIX ACL gives exactly the same rights to everybody: to the owner, each named
// user, the members of each group and of any two groups, and others. Nothing is rounded. In detail
//  - READ_DATA is r, WRITE_DATA and APPEND_DATA together are w (on a directory with DELETE_CHILD),
//    EXECUTE is x. READ_NAMED_ATTRS may stand with r, WRITE_NAMED_ATTRS with w.
//  - READ_ATTRIBUTES, READ_ACL and SYNCHRONIZE everybody has: they may be allowed, not denied.
//    WRITE_ATTRIBUTES and WRITE_ACL the owner has, and nobody else can have them. DELETE and
//    WRITE_OWNER cannot be given.
//  - FILE_INHERIT and DIRECTORY_INHERIT go together and make the default ACL.
//    NO_PROPAGATE_INHERIT, AUDIT and ALARM have no counterpart.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/store/attributes/posix_acl.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// The ACLs of one object.
struct PosixAcls {
  PosixAcl access;
  std::optional<PosixAcl> inherited;  // the default ACL of a directory

  friend bool operator==(const PosixAcls&, const PosixAcls&) = default;
};

std::vector<wire::Ace> AcesFromPosix(const PosixAcls& acls, bool directory);

// `owner` is the object's: an entry for the owner by number must not differ from OWNER@. The access
// ACL has a mask only if it has named entries; it is then the union of what they all have.
// INVAL: not an ACL for such an object; NOTSUPP: no POSIX ACL says the same.
wire::DafsStatus PosixFromAces(std::span<const wire::Ace> aces, bool directory, uint32_t owner,
                               PosixAcls* acls);

}  // namespace dafs::server
