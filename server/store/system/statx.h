// statx(2) of a descriptor. Any thread; may block on the file system.
#pragma once

#include <sys/stat.h>

namespace dafs::server {

// statx of an O_PATH descriptor. Returns 0 or an errno.
int Statx(int fd, struct statx* stx);

}  // namespace dafs::server
