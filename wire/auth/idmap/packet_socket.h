// Packets over a socket of type SOCK_SEQPACKET between IdMap, dafs-idmap and its worker.
// Functions without a state; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"

namespace dafs::auth {

// A time that does not jump when the clock of the machine is set, and goes on while it sleeps.
absl::Time SteadyNow();

// The two ends of a new connection, which a program that is executed does not inherit.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> PacketSockets();

// False: the peer has closed its end, or the packet is too large for the socket. May block while
// the buffer of the socket is full.
bool SendPacket(int socket, std::string_view bytes);

// Waits until `deadline` for a packet of 1 to `most` bytes. A larger one is shortened to `most` + 1
// bytes. kDeadlineExceeded; kUnavailable: the peer has closed its end.
absl::StatusOr<std::string> ReceivePacket(int socket, size_t most, absl::Time deadline);

}  // namespace dafs::auth
