// Reads files of a mount by libdafs, if it is certain that the kernel would read the same.
// Any thread, also in signal handlers; calls of several threads run in parallel.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "client/preload/state.h"

namespace dafs::preload {

// As preadv(2): reads from `offset` of the file of `fd` into `count` pieces of memory. Returns
// false if nothing was read; the caller then calls the kernel. Blocks as a read does. Keeps errno.
bool ReadDirectly(int fd, const iovec* into, int count, off_t offset, ssize_t* result);

// Writes `text` as one line to standard error if DAFS_PRELOAD_VERBOSE is set.
void Say(const char* text, const char* why);

}  // namespace dafs::preload
