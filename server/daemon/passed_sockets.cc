#include "server/daemon/passed_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "wire/dat/address.h"

namespace dafs::server {
namespace {

constexpr int kFirst = 3;  // SD_LISTEN_FDS_START
constexpr int kMost = 64;  // far more than addresses of a machine

int Number(const char* name) {
  const char* const text = std::getenv(name);
  int number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : 0;
}

int Option(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof(value);
  return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : 0;
}

bool ListensByTcp(int fd, const sockaddr_storage& local) {
  return (local.ss_family == AF_INET || local.ss_family == AF_INET6) &&
         Option(fd, SO_TYPE) == SOCK_STREAM && Option(fd, SO_ACCEPTCONN) == 1;
}

}  // namespace

absl::StatusOr<std::vector<UniqueFd>> TakePassedSockets(std::vector<ListenAddress>& listen) {
  const int count = Number("LISTEN_PID") == getpid() ? Number("LISTEN_FDS") : 0;
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) unsetenv(name);
  std::vector<UniqueFd> sockets;
  if (count <= 0) return sockets;
  if (count > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("LISTEN_FDS=", count, ": at most ", kMost));
  }
  std::erase_if(listen, [](const auto& at) { return at.transport == Transport::kTcp; });
  for (int fd = kFirst; fd < kFirst + count; ++fd) {
    sockaddr_storage local = {};
    socklen_t size = sizeof(local);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0 ||
        !ListensByTcp(fd, local)) {
      return absl::InvalidArgumentError(
          absl::StrCat("descriptor ", fd,
                       " of the service manager is not a listening TCP socket; give the socket "
                       "unit ListenStream=ADDR:PORT"));
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    sockets.emplace_back(fd);
    listen.push_back({Transport::kTcp, {reinterpret_cast<const sockaddr*>(&local), size}});
  }
  return sockets;
}

}  // namespace dafs::server
