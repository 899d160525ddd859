#include "server/store/system/statx.h"

#include <fcntl.h>

#include <cerrno>

namespace dafs::server {

int Statx(int fd, struct statx* stx) {
  constexpr unsigned kMask = STATX_BASIC_STATS | STATX_BTIME;
  return statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, kMask, stx) == 0 ? 0 : errno;
}

}  // namespace dafs::server
