// Encode, decode and print for wire/messages/namespace.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(Null)
DAFS_WIRE_INSTANTIATE(Create)
DAFS_WIRE_INSTANTIATE(GetRootHandle)
DAFS_WIRE_INSTANTIATE(Link)
DAFS_WIRE_INSTANTIATE(Lookup)
DAFS_WIRE_INSTANTIATE(Lookupp)
DAFS_WIRE_INSTANTIATE(Openattr)
DAFS_WIRE_INSTANTIATE(ReadlinkInline)
DAFS_WIRE_INSTANTIATE(ReadlinkDirect)
DAFS_WIRE_INSTANTIATE(Remove)
DAFS_WIRE_INSTANTIATE(Rename)

}  // namespace dafs::wire
