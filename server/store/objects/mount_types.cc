#include "server/store/objects/mount_types.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/match.h"
#include "runtime/files/mount_table.h"

namespace dafs::server {

bool IsLocal(absl::string_view type) {
  // Control file systems of the kernel, mounted on almost every machine.
  if (type == "nfsd" || type == "fusectl") return true;
  for (absl::string_view network : {"nfs", "cifs", "smb", "9p", "ceph", "afs", "lustre"}) {
    if (absl::StartsWith(type, network)) return false;
  }
  return !type.empty() && (!absl::StartsWith(type, "fuse") || type == "fuseblk");
}

bool KeepsHandles(absl::string_view type) {
  const bool fuse =
      type == "fuse" || type == "fuseblk" || type == "virtiofs" || absl::StartsWith(type, "fuse.");
  return !fuse || type == "fuse.ceph-fuse";
}

std::string TypeOfFileSystem(int fd) {
  struct statx stx;
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &stx) != 0) return "";
  for (MountEntry& mount : ReadMountTable()) {
    if (mount.mount_id == stx.stx_mnt_id) return std::move(mount.type);
  }
  return "";
}

}  // namespace dafs::server
