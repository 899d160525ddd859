// A kernel feature that tests depend on.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

namespace dafs::server {

// Returns whether the kernel gives each mount an id that is unique since boot, as Linux does since
// 6.8. On other kernels a server treats each of its restarts as a loss of uncommitted data.
inline bool MountsDiffer() {
  constexpr unsigned kMountIdUnique = 0x4000;  // STATX_MNT_ID_UNIQUE, missing in old headers
  struct statx stx = {};
  return statx(AT_FDCWD, "/", 0, kMountIdUnique, &stx) == 0 && (stx.stx_mask & kMountIdUnique) != 0;
}

}  // namespace dafs::server
