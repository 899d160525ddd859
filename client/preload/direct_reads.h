// Reads of files of a mount by libdafs, where everything about them is certain.
// Any thread, also in signal handlers; calls of several threads run in parallel.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "client/preload/state.h"

namespace dafs::preload {

// Reads `count` pieces of memory from `offset` of the file of `fd` on, as preadv(2). False: nothing
// was read, and the caller calls the kernel. Blocks as a read does. Does not change errno.
bool ReadDirectly(int fd, const iovec* into, int count, off_t offset, ssize_t* result);

// Writes `text` as one line to standard error if DAFS_PRELOAD_VERBOSE is set.
void Say(const char* text, const char* why);

}  // namespace dafs::preload
