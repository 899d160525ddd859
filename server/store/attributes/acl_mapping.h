// Converts the protocol's NFSv4 ACLs to the file system's POSIX ACLs and back.
// Spec: 4.4.3, 6.1.4 (ACEs), WIRE R90 (who); draft-ietf-nfsv4-acl-mapping-05.
//
// From POSIX: the mapping draft defines the ACEs. Each entry allows its effective rights; DENY
// entries precede an entry that would allow more. An ACL with a mask and no named entry gives the
// same rights as some mode. The ACEs then allow the owning group twice, so that a client can
// distinguish the ACL from a mode (fuse/kernel/acls/acl_in_mode.h).
//
// To POSIX: the server accepts a list of ACEs only if some POSIX ACL gives exactly the same rights
// to the owner, each named user, the members of each group and of any two groups, and others.
// Nothing is rounded. In detail:
//  - READ_DATA is r, WRITE_DATA and APPEND_DATA together are w (on a directory with DELETE_CHILD),
//    EXECUTE is x. READ_NAMED_ATTRS is accepted with r, WRITE_NAMED_ATTRS with w.
//  - All users have READ_ATTRIBUTES, READ_ACL and SYNCHRONIZE: an ACE may allow but not deny them.
//    Only the owner has WRITE_ATTRIBUTES and WRITE_ACL. DELETE and WRITE_OWNER cannot be granted.
//  - FILE_INHERIT and DIRECTORY_INHERIT occur together and form the default ACL.
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

// `owner` is the owner of the object: an entry with the owner's number must not differ from OWNER@.
// The access ACL gets a mask only if it has named entries; the mask is the union of their rights.
// INVAL: not a valid ACL for such an object; NOTSUPP: no POSIX ACL gives the same rights.
wire::DafsStatus PosixFromAces(std::span<const wire::Ace> aces, bool directory, uint32_t owner,
                               PosixAcls* acls);

}  // namespace dafs::server
