// The peer of a connection as the exports identify it.
#pragma once

#include <memory>

#include "server/store/objects/export.h"
#include "wire/dat/address.h"
#include "wire/dat/tls.h"

namespace dafs::server {

// `tls`: what TLS has proven; null: none.
Peer PeerOf(const dat::Address& address, std::shared_ptr<const dat::TlsPeer> tls);

}  // namespace dafs::server
