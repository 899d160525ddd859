#include "wire/auth/idmap/packet_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dafs::auth {
namespace {

// The longest wait of poll(2) at once, which counts milliseconds in an int.
constexpr absl::Duration kMostPoll = absl::Hours(1);

}  // namespace

absl::Time SteadyNow() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::TimeFromTimespec(now);
}

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> PacketSockets() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(absl::StrCat("socketpair: ", std::strerror(errno)));
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

bool SendPacket(int socket, std::string_view bytes) {
  ssize_t sent = -1;
  do {
    sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

absl::StatusOr<std::string> ReceivePacket(int socket, size_t most, absl::Time deadline) {
  pollfd wait = {.fd = socket, .events = POLLIN, .revents = 0};
  for (int ready = 0; ready <= 0;) {
    const absl::Duration left = std::min(deadline - SteadyNow(), kMostPoll);
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("no answer");
    ready = poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready < 0 && errno != EINTR) break;  // so recv fails, too
  }
  std::string bytes(most + 1, '\0');
  ssize_t got = -1;
  do {
    got = recv(socket, bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return absl::UnavailableError("closed");
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

}  // namespace dafs::auth
