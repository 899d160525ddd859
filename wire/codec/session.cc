// Encode, decode and print for wire/messages/session.h.
#include "wire/codec/instantiate.h"

namespace dafs::wire {

DAFS_WIRE_INSTANTIATE(ClientAuth)
DAFS_WIRE_INSTANTIATE(ClientConnect)
DAFS_WIRE_INSTANTIATE(ClientConnectAuth)
DAFS_WIRE_INSTANTIATE(ConnectBind)
DAFS_WIRE_INSTANTIATE(Disconnect)
DAFS_WIRE_INSTANTIATE(RegisterCred)
DAFS_WIRE_INSTANTIATE(ReleaseCred)
DAFS_WIRE_INSTANTIATE(Secinfo)
DAFS_WIRE_INSTANTIATE(ServerAuth)

}  // namespace dafs::wire
