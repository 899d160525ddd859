// Which start of the machine this is. Any thread.
#pragma once

#include <cstdint>

namespace dafs::server {

// A number that is another after every start of the machine.
uint64_t BootSum();

}  // namespace dafs::server
