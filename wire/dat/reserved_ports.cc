#include "wire/dat/reserved_ports.h"

#include <cerrno>
#include <random>

#include "absl/strings/str_cat.h"

namespace dafs::dat {

ReservedPorts::ReservedPorts() {
  std::random_device random;
  next_ = std::uniform_int_distribution<uint16_t>(kLeastPreferred, kMost)(random);
}

std::optional<uint16_t> ReservedPorts::Next() {
  if (next_ < kLeast) return std::nullopt;
  const uint16_t port = next_--;
  if (preferred_left_ == 0) return port;
  if (--preferred_left_ == 0) {
    next_ = kLeastPreferred - 1;
  } else if (next_ < kLeastPreferred) {
    next_ = kMost;
  }
  return port;
}

// EADDRNOTAVAIL: a connection from this port to the same peer exists, or ended recently.
bool IsPortInUse(int error) { return error == EADDRINUSE || error == EADDRNOTAVAIL; }

bool IsPortDenied(int error) { return error == EACCES || error == EPERM; }

absl::Status NoReservedPort(int error) {
  return absl::UnavailableError(absl::StrCat(
      "connect: none of the local ports ", ReservedPorts::kLeast, " to ", ReservedPorts::kMost,
      " is free for this server (", absl::ErrnoToStatus(error, "the last").message(),
      "); use fewer connections (nconnect=), or the option noresvport and an export with "
      "`insecure`"));
}

}  // namespace dafs::dat
