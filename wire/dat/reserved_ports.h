// Local ports below 1024, which only a privileged program may bind. A server takes one as a sign
// that the program which connects is trusted by its machine (server/store/objects/export.h,
// `insecure`). Values; usable from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "wire/dat/address.h"

namespace dafs::dat {

// Whether a peer that connects from `address` had to be privileged to do so.
inline bool HasReservedPort(const Address& address) {
  return address.port() > 0 && address.port() < IPPORT_RESERVED;
}

// The ports that one connection tries, each once: downwards from a random one of 665..1023, as
// Linux does for NFS, and where none of them is free from 664 to 512, as bindresvport(3). Further
// down are ports of common services.
class ReservedPorts {
 public:
  static constexpr uint16_t kLeast = 512;
  static constexpr uint16_t kLeastPreferred = 665;
  static constexpr uint16_t kMost = IPPORT_RESERVED - 1;

  ReservedPorts();
  // Nothing: all were tried.
  std::optional<uint16_t> Next();

 private:
  uint16_t next_;
  uint16_t preferred_left_ = kMost - kLeastPreferred + 1;
};

// Whether another port may do where bind(2), connect(2) or their like failed with `error`.
bool IsPortInUse(int error);
// Whether this program may not bind reserved ports.
bool IsPortDenied(int error);
// What to report when Next has no further port; `error` is that of the last one. kUnavailable.
absl::Status NoReservedPort(int error);

}  // namespace dafs::dat
