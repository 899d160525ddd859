// What the kernel under a test can tell.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

namespace dafs::server {

// Whether it tells a mount from every other since its start, as Linux does from 6.8 on. Elsewhere a
// server takes each of its restarts for a loss of what was not committed.
inline bool MountsDiffer() {
  constexpr unsigned kMountIdUnique = 0x4000;  // STATX_MNT_ID_UNIQUE, which old headers lack
  struct statx stx = {};
  return statx(AT_FDCWD, "/", 0, kMountIdUnique, &stx) == 0 && (stx.stx_mask & kMountIdUnique) != 0;
}

}  // namespace dafs::server
