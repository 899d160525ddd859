// Local ports below 1024, which only a privileged program may bind. A server may require one as
// evidence that the peer's machine trusts the connecting program (server/store/objects/export.h,
// `insecure`). Values; usable from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "wire/dat/address.h"

namespace dafs::dat {

// Whether a peer needed privilege to connect from `address`.
inline bool HasReservedPort(const Address& address) {
  return address.port() > 0 && address.port() < IPPORT_RESERVED;
}

// Yields the ports that one connection tries, each once: first downwards from a random port in
// 665..1023, as Linux does for NFS, then from 664 to 512, as bindresvport(3). Common services use
// the ports below 512.
class ReservedPorts {
 public:
  static constexpr uint16_t kLeast = 512;
  static constexpr uint16_t kLeastPreferred = 665;
  static constexpr uint16_t kMost = IPPORT_RESERVED - 1;

  ReservedPorts();
  // Returns the next port; nullopt after all were tried.
  std::optional<uint16_t> Next();

 private:
  uint16_t next_;
  uint16_t preferred_left_ = kMost - kLeastPreferred + 1;
};

// Whether another port may succeed after bind(2), connect(2) or a similar call failed with `error`.
bool IsPortInUse(int error);
// Whether this program may not bind reserved ports.
bool IsPortDenied(int error);
// The error to report after Next returned nullopt; `error` is that of the last port. kUnavailable.
absl::Status NoReservedPort(int error);

}  // namespace dafs::dat
