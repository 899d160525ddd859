// The peer of a connection as the exports identify it.
#pragma once

#include "server/store/objects/export.h"
#include "wire/dat/address.h"

namespace dafs::server {

Peer PeerOf(const dat::Address& address);

}  // namespace dafs::server
