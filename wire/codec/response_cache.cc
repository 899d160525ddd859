// Encode, decode and print for wire/messages/response_cache.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(CheckResponse)
DAFS_WIRE_INSTANTIATE(FetchResponse)
DAFS_WIRE_INSTANTIATE(DiscardResponses)

}  // namespace dafs::wire
