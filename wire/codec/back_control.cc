// Encode, decode and print for wire/messages/back_control.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(BcGetattr)
DAFS_WIRE_INSTANTIATE(BcNull)
DAFS_WIRE_INSTANTIATE(BcRecall)
DAFS_WIRE_INSTANTIATE(BcBatchCompletion)

}  // namespace dafs::wire
