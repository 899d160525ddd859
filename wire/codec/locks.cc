// Encode, decode and print for wire/messages/locks.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(Lock)
DAFS_WIRE_INSTANTIATE(Lockt)
DAFS_WIRE_INSTANTIATE(Locku)
DAFS_WIRE_INSTANTIATE(OpenOwner)

}  // namespace dafs::wire
