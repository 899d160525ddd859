// Encode, decode and print for every message.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_PROCEDURES(DAFS_WIRE_INSTANTIATE)

}  // namespace dafs::wire
