// Encode, decode and print for wire/messages_fencing.h.
#include "wire/codec_internal/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(GetFencingList)
DAFS_WIRE_INSTANTIATE(SetFencingList)

}  // namespace dafs::wire
