// Encode, decode and print for wire/messages/attributes.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(Access)
DAFS_WIRE_INSTANTIATE(GetFsattr)
DAFS_WIRE_INSTANTIATE(GetattrInline)
DAFS_WIRE_INSTANTIATE(GetattrDirect)
DAFS_WIRE_INSTANTIATE(SetattrInline)
DAFS_WIRE_INSTANTIATE(SetattrDirect)
DAFS_WIRE_INSTANTIATE(Nverify)
DAFS_WIRE_INSTANTIATE(Verify)

}  // namespace dafs::wire
