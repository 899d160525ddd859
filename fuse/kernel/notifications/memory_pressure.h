// Keeps the mount working when memory is short. Pages that are dirtied on the mount can only be
// cleaned by this process. So the process must not wait for that cleaning, must not be paged out,
// and should not be the one that the OOM killer ends. Best effort: steps that are not permitted are
// skipped.
#pragma once

namespace dafs::fuse {

// Call once, as the daemon, before its threads start. Limits the free memory that malloc(3) keeps,
// locks code and data as they are touched (with CAP_IPC_LOCK), and makes the OOM killer prefer
// other processes (as root). Returns whether memory may be locked: the caller then locks a buffer
// for writes too.
bool PrepareForMemoryPressure();

// Call in each thread that serves the kernel. Sets PR_SET_IO_FLUSHER, and locks the thread's stack
// as it is touched.
void BecomeIoFlusher();

}  // namespace dafs::fuse
