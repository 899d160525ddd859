// The names of the kernel's requests, for reports. A pure function.
#pragma once

#include <cstdint>
#include <string>

namespace dafs::fuse {

// "READ" for FUSE_READ; the number of an opcode without a name.
std::string OpcodeName(uint32_t opcode);

}  // namespace dafs::fuse
