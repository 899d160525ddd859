// Encode, decode and print for wire/messages/posix.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(Rename2)
DAFS_WIRE_INSTANTIATE(OpenExecute)
DAFS_WIRE_INSTANTIATE(MakeNode)
DAFS_WIRE_INSTANTIATE(Extensions)

}  // namespace dafs::wire
