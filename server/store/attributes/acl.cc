#include "server/store/attributes/acl.h"

#include <sys/stat.h>

#include <string>

#include "absl/functional/function_ref.h"
#include "server/store/attributes/acl_mapping.h"
#include "server/store/attributes/posix_acl.h"
#include "server/store/attributes/xattrs.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/statx.h"
#include "wire/protocol/limits.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// Reads the extended attribute of the given name into the string.
using ReadFunction = absl::FunctionRef<DafsStatus(const char*, std::string*)>;

auto ReaderOf(const Object& object) {
  return [&object](const char* attribute, std::string* value) {
    return GetAclXattr(object, attribute, value);
  };
}

// Reads the ACL in `attribute`. Sets none if there is none or the file system has no ACLs.
DafsStatus ReadAcl(ReadFunction read, const char* attribute, std::optional<PosixAcl>* acl) {
  std::string value;
  const DafsStatus status = read(attribute, &value);
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

DafsStatus ReadAcls(ReadFunction read, uint32_t mode, PosixAcls* acls) {
  std::optional<PosixAcl> access;
  if (DafsStatus status = ReadAcl(read, kAccessAclXattr, &access); status != DafsStatus::kOk) {
    return status;
  }
  acls->access = access.has_value() ? *std::move(access) : AclFromMode(mode);
  if (!S_ISDIR(mode)) return DafsStatus::kOk;
  return ReadAcl(read, kDefaultAclXattr, &acls->inherited);
}

DafsStatus ReadAces(ReadFunction read, uint32_t mode, std::vector<wire::Ace>* aces) {
  if (S_ISLNK(mode)) return DafsStatus::kInval;
  PosixAcls acls;
  const DafsStatus status = ReadAcls(read, mode, &acls);
  if (status != DafsStatus::kOk) return status;
  *aces = AcesFromPosix(acls, S_ISDIR(mode));
  return aces->size() <= wire::kAclMax ? DafsStatus::kOk : DafsStatus::kNotSupp;
}

}  // namespace

DafsStatus GetAcl(const Object& object, uint32_t mode, std::vector<wire::Ace>* aces) {
  return ReadAces(ReaderOf(object), mode, aces);
}

DafsStatus GetAclOfEntry(const char* name, uint32_t mode, std::vector<wire::Ace>* aces) {
  const auto read = [&](const char* attribute, std::string* value) {
    return GetAclXattr(name, attribute, value);
  };
  return ReadAces(read, mode, aces);
}

DafsStatus SetAcl(const Object& object, const std::vector<wire::Ace>& aces) {
  if (object.type() == S_IFLNK) return DafsStatus::kInval;
  struct statx stx;
  if (int error = Statx(object.path_fd(), &stx); error != 0) return StatusFromErrno(error);
  PosixAcls before, after;
  DafsStatus status = ReadAcls(ReaderOf(object), stx.stx_mode, &before);
  if (status == DafsStatus::kOk) {
    status = PosixFromAces(aces, object.is_dir(), stx.stx_uid, &after);
  }
  if (status != DafsStatus::kOk) return status;
  // Set the default ACL first: it grants no access to this object, so it can be undone safely.
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
