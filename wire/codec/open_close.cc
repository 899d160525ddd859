// Encode, decode and print for wire/messages/open_close.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(Open)
DAFS_WIRE_INSTANTIATE(Close)
DAFS_WIRE_INSTANTIATE(OpenDowngrade)
DAFS_WIRE_INSTANTIATE(Delegpurge)
DAFS_WIRE_INSTANTIATE(Delegreturn)
DAFS_WIRE_INSTANTIATE(OpenHandle)

}  // namespace dafs::wire
