#include "server/session/connection/peer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/dat/reserved_ports.h"

namespace dafs::server {

Peer PeerOf(const dat::Address& address, std::shared_ptr<const dat::TlsPeer> tls) {
  sockaddr_storage storage = {};
  std::memcpy(&storage, address.get(), std::min<size_t>(address.size(), sizeof(storage)));
  return {.address = PeerAddress::FromSockaddr(storage),
          .reserved_port = dat::HasReservedPort(address),
          .tls = std::move(tls)};
}

}  // namespace dafs::server
