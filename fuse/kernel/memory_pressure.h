// Keeping the mount alive when memory is short: pages dirtied on the mount can only be cleaned
// through this process, so it must neither wait for that cleaning itself, nor be paged out, nor be
// the one that is killed. Best effort: what is not permitted is left out.
#pragma once

namespace dafs::fuse {

// Once, as the daemon, before its threads start: locks code and data as they are touched (where
// CAP_IPC_LOCK is held) and makes the OOM killer look elsewhere (as root). Returns whether memory
// may be locked: the caller locks a buffer for writes too.
bool PrepareForMemoryPressure();

// In each thread that serves the kernel: PR_SET_IO_FLUSHER, and locks its stack as it is touched.
void BecomeIoFlusher();

}  // namespace dafs::fuse
