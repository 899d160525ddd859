#include "tests/bench/round_trip.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace dafs::bench {
namespace {

// About the sizes of the messages for a LOOKUP with a GETATTR of mount.dafs.
constexpr size_t kRequest = 200;
constexpr size_t kAnswer = 300;
constexpr size_t kMost = 1 << 20;  // of data
constexpr size_t kBuffer = std::max(kRequest, kAnswer) + kMost;

struct Sizes {
  uint64_t sent;  // bytes of data that follow the request
  uint64_t received;
};

bool SendAll(int socket, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(socket, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

// Receives from `least` to `most` bytes. Returns the number, or 0 if the connection has ended.
size_t Receive(int socket, char* bytes, size_t least, size_t most) {
  size_t got = 0;
  while (got < least) {
    const ssize_t more = recv(socket, bytes + got, most - got, 0);
    if (more <= 0) return 0;
    got += static_cast<size_t>(more);
  }
  return got;
}

void Answer(int socket) {
  std::vector<char> bytes(kBuffer);
  while (const size_t got = Receive(socket, bytes.data(), kRequest, bytes.size())) {
    Sizes sizes = {};
    std::memcpy(&sizes, bytes.data(), sizeof sizes);
    const size_t missing = kRequest + sizes.sent - got;
    if (missing > 0 && Receive(socket, bytes.data() + got, missing, missing) == 0) return;
    if (!SendAll(socket, bytes.data(), kAnswer + sizes.received)) return;
  }
}

// Connects a pair of sockets over 127.0.0.1.
bool Connect(int& ours, int& theirs) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  const int on = 1;
  const bool connected = listener >= 0 && ours >= 0 && bind(listener, name, length) == 0 &&
                         getsockname(listener, name, &length) == 0 && listen(listener, 1) == 0 &&
                         connect(ours, name, length) == 0;
  theirs = connected ? accept(listener, nullptr, nullptr) : -1;
  if (listener >= 0) close(listener);
  return theirs >= 0 && setsockopt(ours, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
         setsockopt(theirs, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

}  // namespace

RoundTrip::~RoundTrip() {
  if (socket_ >= 0) close(socket_);
}

bool RoundTrip::Start() {
  int theirs = -1;
  if (!Connect(socket_, theirs)) return false;
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    close(socket_);
    Answer(theirs);
    std::_Exit(0);
  }
  close(theirs);
  bytes_.resize(kBuffer);
  return true;
}

void RoundTrip::Make(size_t data_sent, size_t data_received) {
  if (socket_ < 0) return;
  const Sizes sizes = {std::min(data_sent, kMost), std::min(data_received, kMost)};
  std::memcpy(bytes_.data(), &sizes, sizeof sizes);
  const size_t answer = kAnswer + sizes.received;
  if (!SendAll(socket_, bytes_.data(), kRequest + sizes.sent) ||
      Receive(socket_, bytes_.data(), answer, answer) == 0) {
    std::fprintf(stderr, "passthrough: the peer process has ended\n");
    std::exit(1);
  }
}

}  // namespace dafs::bench
