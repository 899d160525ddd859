// Encode, decode and print for wire/messages/ranges.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(Allocate)
DAFS_WIRE_INSTANTIATE(Seek)
DAFS_WIRE_INSTANTIATE(CopyRange)

}  // namespace dafs::wire
