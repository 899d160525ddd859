// The iwarp provider: implements wire/dat/dat.h in user space over an ordinary TCP socket, as MPA
// (RFC 5044), DDP (RFC 5041) and RDMAP (RFC 5040) define. The peer may be an adapter, the kernel's
// siw, or this provider. Spec: WIRE 11.1, 11.2, 11.6.
//
// The provider is thread-safe; its objects follow the rules of wire/dat/dat.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "wire/dat/dat.h"
#include "wire/dat/tls.h"

namespace dafs::dat {

struct IwarpOptions {
  // Request CRC32C on every FPDU. It is used if either side requests it (RFC 5044, 7.1.1).
  bool want_crc = false;
  // Limits the time from Connect to kConnected. In a listener, limits the time from TCP accept to a
  // complete MPA request, TLS included.
  absl::Duration handshake_timeout = absl::Seconds(10);
  // How long an orderly close waits for the peer to close too.
  absl::Duration close_timeout = absl::Seconds(5);
  // A peer that acknowledges nothing for this long is dead (TCP_USER_TIMEOUT and keepalive).
  absl::Duration dead_peer_timeout = absl::Seconds(30);
  // A listener's connections with an incomplete request, at most. The listener drops the oldest
  // first.
  uint32_t max_half_open = 128;
  // Connect from a reserved port (wire/dat/reserved_ports.h). A program that may not bind one
  // connects from any port instead.
  bool reserved_port = true;
  // TLS below MPA. A connection with it has no CRC of its own, unless the peer requests one.
  // Connect: null for a plain connection. Listen: the first byte of a connection shows whether it
  // is TLS or an MPA request; null refuses TLS with an alert.
  std::shared_ptr<TlsContext> tls = nullptr;
  // Listener: called on its thread for a connection whose TLS failed, for the log. May be null.
  std::function<void(const Address& peer, const absl::Status& why)> on_tls_refused = nullptr;
  // Let two ends of this provider recognise each other, and then use FPDUs longer than a TCP
  // segment.
  bool recognise_peer = true;
};

// `listening` are TCP sockets that listen already, for example those of a service manager. The
// first Listen on the address of one uses that socket.
std::unique_ptr<Provider> NewIwarpProvider(const IwarpOptions& options = {},
                                           std::vector<UniqueFd> listening = {});

}  // namespace dafs::dat
