// Encode, decode and print for wire/messages/batch.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(BatchSubmit)
DAFS_WIRE_INSTANTIATE(HurryUp)

}  // namespace dafs::wire
