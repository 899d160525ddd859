#include "server/session/peer.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "wire/dat/reserved_ports.h"

namespace dafs::server {

Peer PeerOf(const dat::Address& address) {
  sockaddr_storage storage = {};
  std::memcpy(&storage, address.get(), std::min<size_t>(address.size(), sizeof(storage)));
  return {.address = PeerAddress::FromSockaddr(storage),
          .reserved_port = dat::HasReservedPort(address)};
}

}  // namespace dafs::server
