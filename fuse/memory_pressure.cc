#include "fuse/memory_pressure.h"

#include <linux/capability.h>
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

// Without it a limit on locked memory would let later mappings fail.
bool MayLockAnyAmount() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[0].effective & (uint32_t{1} << CAP_IPC_LOCK)) != 0;
}

}  // namespace

void PrepareForMemoryPressure() {
  // As it is touched: stacks and the slab are mapped larger than they are used.
  if (MayLockAnyAmount()) mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
  if (geteuid() == 0) {
    // Just above "never" (-1000): a runaway daemon can still be ended.
    std::ofstream("/proc/self/oom_score_adj") << "-900" << std::flush;
  }
}

void BecomeIoFlusher() { prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0); }

}  // namespace dafs::fuse
