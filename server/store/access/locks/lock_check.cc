#include "server/store/access/locks/lock_check.h"

#include <sys/stat.h>

#include <algorithm>

#include "server/store/system/errno_status.h"
#include "server/store/system/statx.h"

namespace dafs::server {

wire::DafsStatus CheckResize(const PersistentLocks& locks, const Caller& caller, const Object& file,
                             bool has_state, uint64_t size, UndoChange* change) {
  *change = {};
  if (!locks.MayConcern(file.key())) return wire::DafsStatus::kOk;
  struct statx stx;
  if (Statx(file.path_fd(), &stx) != 0) return StatusFromErrno();
  const uint64_t first = std::min<uint64_t>(size, stx.stx_size);
  const uint64_t end = std::max<uint64_t>(size, stx.stx_size);
  *change = {first, end, size < stx.stx_size};
  return CheckLocked(locks, caller, has_state, file.key(), {first, end - first, /*write=*/true});
}

}  // namespace dafs::server
