// Encode, decode and print for wire/messages/fencing.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(GetFencingList)
DAFS_WIRE_INSTANTIATE(SetFencingList)

}  // namespace dafs::wire
