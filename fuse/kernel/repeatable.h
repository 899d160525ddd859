// Which of the kernel's requests may be carried out although another process may have done so. A
// pure function.
#pragma once

#include <cstdint>

namespace dafs::fuse {

// Whether a request that a killed process has read can be answered although nothing is known about
// what that process did. It may have changed something for any other.
bool MayBeRepeated(uint32_t opcode);

}  // namespace dafs::fuse
