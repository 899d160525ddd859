// Encode, decode and print for wire/messages_batch.h.
#include "wire/codec_internal/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(BatchSubmit)
DAFS_WIRE_INSTANTIATE(HurryUp)

}  // namespace dafs::wire
