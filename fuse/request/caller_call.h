// Finds the system call that the caller of a request is in, because the kernel sends the same
// request for some different system calls. A caller that CallerProc does not show is unknown.
// Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "fuse/request/caller_proc.h"

namespace dafs::fuse {

// Whether thread `pid` is in fcntl(F_OFD_SETLKW). Returns false if that is unknown. The kernel
// sends the same request for record locks and for locks of open file descriptions (OFD;
// docs/fuse.md 8). Only a wait for a record lock fails with EDEADLK: another process that shares
// the description may release an OFD lock.
bool WaitsForOfdLock(uint32_t pid, const CallerProc& proc);

// Whether thread `pid` is in chown(2) or a variant of it; nullopt if that is unknown. A chown(2)
// that changes neither owner nor group sends the same SETATTR as a write that clears set-id bits.
std::optional<bool> ChangesOwner(uint32_t pid, const CallerProc& proc);

}  // namespace dafs::fuse
