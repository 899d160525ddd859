#include "fuse/kernel/notifications/memory_pressure.h"

#include <linux/capability.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace dafs::fuse {
namespace {

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57  // Linux 5.6
#endif

// Without CAP_IPC_LOCK, a limit on locked memory would make later mappings fail.
bool MayLockAnyAmount() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[0].effective & (uint32_t{1} << CAP_IPC_LOCK)) != 0;
}

// More than a thread here uses. Stacks grow down from near `here`.
constexpr uintptr_t kStackBytes = uintptr_t{64} << 10;

void LockStack() {
  const char here = 0;
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t end = reinterpret_cast<uintptr_t>(&here) / page * page + page;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the pages are those of other frames
  mlock2(reinterpret_cast<void*>(end - kStackBytes), kStackBytes, MLOCK_ONFAULT);
}

// Free memory at the end of a thread's heap stays resident up to this size: malloc_trim(3) returns
// it only in the heap of the main thread. Left alone, glibc raises the limit to twice the largest
// block that was freed (a table of a million inodes: 32 MiB). Blocks from 128 KiB have a mapping of
// their own from now on; the data path allocates none.
constexpr int kFreeAtEndOfHeap = 256 << 10;

}  // namespace

bool PrepareForMemoryPressure() {
  mallopt(M_TRIM_THRESHOLD, kFreeAtEndOfHeap);
  // Lock code and data as they are touched, but no later mappings: the heap grows with the inodes
  // that the kernel knows.
  const bool may_lock = MayLockAnyAmount();
  if (may_lock) mlockall(MCL_CURRENT | MCL_ONFAULT);
  if (geteuid() == 0) {
    // Just above "never" (-1000), so that a runaway daemon can still be killed.
    std::ofstream("/proc/self/oom_score_adj") << "-900" << std::flush;
  }
  return may_lock;
}

void BecomeIoFlusher() {
  prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
  if (MayLockAnyAmount()) LockStack();
}

}  // namespace dafs::fuse
