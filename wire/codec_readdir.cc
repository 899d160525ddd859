// Encode, decode and print for wire/messages_readdir.h.
#include "wire/codec_internal/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(ReaddirInline)
DAFS_WIRE_INSTANTIATE(ReaddirDirect)

}  // namespace dafs::wire
