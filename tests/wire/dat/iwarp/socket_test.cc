// The options set on the sockets of connections.
#include "wire/dat/iwarp/socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "runtime/files/unique_fd.h"

namespace dafs::dat::iwarp {
namespace {

std::string CongestionControl(int fd) {
  char name[16] = {};
  socklen_t size = sizeof name;
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
  return name;
}

// Returns a socket with another congestion control than the chosen one, if the kernel has another.
UniqueFd MakeSocket(int family) {
  absl::StatusOr<UniqueFd> fd = NewTcpSocket(family);
  EXPECT_TRUE(fd.ok()) << fd.status();
  for (const std::string name : {"cubic", "bbr"}) {
    if (setsockopt(fd->get(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                   static_cast<socklen_t>(name.size())) == 0) {
      break;
    }
  }
  return *std::move(fd);
}

TEST(IwarpSocket, ConnectionWithinTheMachineIsNotPaced) {
  UniqueFd listener = MakeSocket(AF_INET);
  sockaddr_in here = {};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  auto* const address = reinterpret_cast<sockaddr*>(&here);
  ASSERT_EQ(bind(listener.get(), address, size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), address, &size), 0);
  UniqueFd client = MakeSocket(AF_INET);
  const std::string before = CongestionControl(client.get());
  ChooseCongestionControl(client.get());  // not connected yet: changes nothing
  EXPECT_EQ(CongestionControl(client.get()), before);
  (void)connect(client.get(), address, size);  // EINPROGRESS
  pollfd waiting = {.fd = listener.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&waiting, 1, 10'000), 1);
  UniqueFd server(accept(listener.get(), nullptr, nullptr));
  ASSERT_TRUE(server.valid());
  for (int fd : {client.get(), server.get()}) {
    ChooseCongestionControl(fd);
    EXPECT_EQ(CongestionControl(fd), "reno");
  }
}

}  // namespace
}  // namespace dafs::dat::iwarp
