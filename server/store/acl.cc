#include "server/store/acl.h"

#include <sys/stat.h>

#include <string>

#include "server/store/acl_mapping.h"
#include "server/store/attributes.h"
#include "server/store/errno_status.h"
#include "server/store/posix_acl.h"
#include "server/store/xattrs.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// The ACL in `attribute`; none where there is none or the file system has no ACLs.
DafsStatus ReadAcl(const Object& object, const char* attribute, std::optional<PosixAcl>* acl) {
  std::string value;
  const DafsStatus status = GetXattr(object, attribute, &value);
  acl->reset();
  if (status == DafsStatus::kNoEnt || status == DafsStatus::kNotSupp) return DafsStatus::kOk;
  if (status != DafsStatus::kOk) return status;
  *acl = DecodeAcl(value);
  return acl->has_value() ? DafsStatus::kOk : DafsStatus::kServerFault;
}

DafsStatus WriteAcl(const Object& object, const char* attribute,
                    const std::optional<PosixAcl>& acl) {
  if (acl.has_value()) return SetXattr(object, attribute, EncodeAcl(*acl), XattrMode::kAny);
  const DafsStatus status = RemoveXattr(object, attribute);
  const bool none = status == DafsStatus::kNoEnt || status == DafsStatus::kNotSupp;
  return none ? DafsStatus::kOk : status;
}

DafsStatus ReadAcls(const Object& object, PosixAcls* acls, uint32_t* owner) {
  struct statx stx;
  if (int error = Statx(object.path_fd(), &stx); error != 0) return StatusFromErrno(error);
  *owner = stx.stx_uid;
  std::optional<PosixAcl> access;
  if (DafsStatus status = ReadAcl(object, kAccessAclXattr, &access); status != DafsStatus::kOk) {
    return status;
  }
  acls->access = access.has_value() ? *std::move(access) : AclFromMode(stx.stx_mode);
  if (!object.is_dir()) return DafsStatus::kOk;
  return ReadAcl(object, kDefaultAclXattr, &acls->inherited);
}

}  // namespace

DafsStatus GetAcl(const Object& object, std::vector<wire::Ace>* aces) {
  if (object.type() == S_IFLNK) return DafsStatus::kInval;
  PosixAcls acls;
  uint32_t owner = 0;
  if (DafsStatus status = ReadAcls(object, &acls, &owner); status != DafsStatus::kOk) {
    return status;
  }
  *aces = AcesFromPosix(acls, object.is_dir());
  return DafsStatus::kOk;
}

DafsStatus SetAcl(const Object& object, const std::vector<wire::Ace>& aces) {
  if (object.type() == S_IFLNK) return DafsStatus::kInval;
  PosixAcls before, after;
  uint32_t owner = 0;
  DafsStatus status = ReadAcls(object, &before, &owner);
  if (status == DafsStatus::kOk) status = PosixFromAces(aces, object.is_dir(), owner, &after);
  if (status != DafsStatus::kOk) return status;
  // The inherited one first: it can be taken back without anybody having had its rights.
  const bool inherits = after.inherited != before.inherited;
  if (inherits) status = WriteAcl(object, kDefaultAclXattr, after.inherited);
  if (status != DafsStatus::kOk) return status;
  status = WriteAcl(object, kAccessAclXattr, after.access);
  if (status != DafsStatus::kOk && inherits) {
    WriteAcl(object, kDefaultAclXattr, before.inherited);
  }
  return status;
}

}  // namespace dafs::server
