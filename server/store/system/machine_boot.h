// Identifies a start of the machine. Any thread.
#pragma once

#include <cstdint>

namespace dafs::server {

// Returns a number that differs after every start of the machine.
uint64_t BootSum();

}  // namespace dafs::server
