// The iwarp provider: the DAT seam in user space over an ordinary TCP socket, as MPA (RFC 5044),
// DDP (RFC 5041) and RDMAP (RFC 5040) lay it down, so that its peer may be an adapter, the
// kernel's siw, or itself. Spec: WIRE 11.1, 11.2, 11.6.
//
// The provider is thread-safe; what it makes follows the rules of wire/dat/dat.h.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "wire/dat/dat.h"

namespace dafs::dat {

struct IwarpOptions {
  // Ask for CRC32C on every FPDU. It is used when either side asks (RFC 5044, 7.1.1).
  bool want_crc = false;
  // From Connect to kConnected, and from TCP accept to a whole MPA request at a listener.
  absl::Duration handshake_timeout = absl::Seconds(10);
  // How long an orderly close waits for the peer to close too.
  absl::Duration close_timeout = absl::Seconds(5);
  // A peer that acknowledges nothing for so long is dead (TCP_USER_TIMEOUT and keepalive).
  absl::Duration dead_peer_timeout = absl::Seconds(30);
  // Connections of a listener whose request has not arrived whole; the oldest goes first.
  uint32_t max_half_open = 128;
  // Connect from a reserved port (wire/dat/reserved_ports.h). A program that may not bind one
  // connects from any port all the same.
  bool reserved_port = true;
  // Let two ends of this provider recognise each other and use FPDUs longer than a TCP segment.
  bool recognise_peer = true;
};

std::unique_ptr<Provider> NewIwarpProvider(const IwarpOptions& options = {});

}  // namespace dafs::dat
