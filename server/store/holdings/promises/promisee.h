// The name that Promises gives to a client.
#pragma once

#include <cstdint>

namespace dafs::server {

// A client that takes part; 0: none. A number is not used again for another client.
using Promisee = uint32_t;

}  // namespace dafs::server
