#include "server/store/access/object_attributes.h"

#include "server/store/access/return_if_not_ok.h"
#include "server/store/attributes/acl.h"
#include "server/store/attributes/attributes.h"
#include "server/store/attributes/xattrs.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;

DafsStatus ObjectAttributes::GetAttributes(Object& object, uint64_t bitmap,
                                           wire::FileAttributes* attributes) {
  const uint64_t sample = object.change().Sample();
  struct statx stx;
  if (int error = Statx(object.path_fd(), &stx); error != 0) return StatusFromErrno(error);
  return GetAttributesFrom(object, sample, stx, bitmap, attributes);
}

DafsStatus ObjectAttributes::GetAttributesFrom(Object& object, uint64_t sample,
                                               const struct statx& stx, uint64_t bitmap,
                                               wire::FileAttributes* attributes) {
  STORE_RETURN_IF_NOT_OK(objects_.CheckAlive(object, stx.stx_nlink));
  const bool hidden_link =
      object.is_dir() ? orphans_.Of(object.fs()).IsIn(object.fs(), stx.stx_ino) : object.orphaned();
  FillAttributes(stx, bitmap, object.change().Value(CtimeNs(stx), sample), object.handle(),
                 hidden_link, attributes);
  attributes->file_id = FileIdOf(object.fs(), stx);
  if ((bitmap & wire::kFattrNamedAttr) != 0) {
    attributes->named_attr = SupportsXattrs(object);
    attributes->valid |= wire::kFattrNamedAttr;
  }
  // Links have no ACL. An ACL that exists but cannot be read is an error (6.5.13-02).
  if ((bitmap & wire::kFattrAcl) != 0 && object.type() != S_IFLNK) {
    STORE_RETURN_IF_NOT_OK(GetAcl(object, stx.stx_mode, &attributes->acl));
    attributes->valid |= wire::kFattrAcl;
  }
  return DafsStatus::kOk;
}

void ObjectAttributes::GetPseudoAttributes(const PseudoNode& node, uint64_t bitmap,
                                           wire::FileAttributes* attributes) {
  struct statx stx = {};
  stx.stx_mask = STATX_BASIC_STATS | STATX_BTIME;
  stx.stx_mode = S_IFDIR | 0555;
  stx.stx_nlink = 1;  // not counted: some children may be hidden from the caller
  stx.stx_ino = node.file_id;
  stx.stx_atime.tv_sec = node.made_ns / 1'000'000'000;
  stx.stx_atime.tv_nsec = static_cast<uint32_t>(node.made_ns % 1'000'000'000);
  stx.stx_btime = stx.stx_ctime = stx.stx_mtime = stx.stx_atime;
  FillAttributes(stx, bitmap, CtimeNs(stx), node.handle, false, attributes);
  attributes->valid |= bitmap & wire::kFattrNamedAttr;  // valid, with the value false
}

}  // namespace dafs::server
