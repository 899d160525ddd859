// Encode, decode and print for wire/messages/readdir.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(ReaddirInline)
DAFS_WIRE_INSTANTIATE(ReaddirDirect)

}  // namespace dafs::wire
