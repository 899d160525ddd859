// What kind of lock a thread waits for. The kernel sends record locks and locks of open file
// descriptions (OFD) in the same words (FUSE-FACTS 8), but only a wait for a record lock fails with
// EDEADLK: an OFD lock may be given up by somebody other than who waits. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace dafs::fuse {

// Whether thread `pid` is in fcntl(F_OFD_SETLKW). False if that cannot be told.
bool WaitsForOfdLock(uint32_t pid, const std::string& proc = "/proc");

}  // namespace dafs::fuse
