// The local ports of connections.
#include "wire/dat/reserved_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "tests/wire/dat/dat_pair.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::dat::testing {
namespace {

// Runs `call` on a thread in a network namespace of its own, with its own loopback.
void AloneInANetwork(auto call) {
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "needs root for a network namespace";
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq loopback = {};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    ASSERT_EQ(ioctl(fd, SIOCSIFFLAGS, &loopback), 0);
    close(fd);
    call();
  }).join();
}

// Both ends of connections. They stay open.
struct Connections {
  std::vector<std::unique_ptr<Domain>> domains;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::vector<std::unique_ptr<PendingEndpoint>> accepted;

  // Connects. Returns the port that the listener sees, or the error.
  absl::StatusOr<uint16_t> Add(Provider& provider, Listener& listener) {
    auto pending = provider.Resolve(listener.local(), "", absl::Seconds(5));
    if (!pending.ok()) return pending.status();
    domains.push_back(*(*pending)->NewDomain());
    endpoints.push_back(*(*pending)->CreateEndpoint(*domains.back(), {}));
    if (absl::Status status = endpoints.back()->Connect({}); !status.ok()) return status;
    while (true) {
      Completion completion;
      if (endpoints.back()->Poll({&completion, 1}) > 0) return completion.status;
      auto next = listener.Next();
      if (!next.ok()) return next.status();
      if (*next == nullptr) continue;
      accepted.push_back(*std::move(next));
      return accepted.back()->peer().port();
    }
  }
};

TEST(ReservedPortsTest, EachPortIsTriedOnce) {
  ReservedPorts ports;
  std::set<uint16_t> tried;
  while (const std::optional<uint16_t> port = ports.Next()) {
    EXPECT_GE(*port, ReservedPorts::kLeast);
    EXPECT_LT(*port, IPPORT_RESERVED);
    EXPECT_EQ(*port >= ReservedPorts::kLeastPreferred, tried.size() < 359);
    EXPECT_TRUE(tried.insert(*port).second);
  }
  EXPECT_EQ(tried.size(), 512u);
}

TEST(ReservedPortsTest, PortsBelow1024AreReserved) {
  Address address = LoopbackAddress();
  for (const auto& [port, reserved] :
       {std::pair{0, false}, {1, true}, {1023, true}, {1024, false}}) {
    address.set_port(static_cast<uint16_t>(port));
    EXPECT_EQ(HasReservedPort(address), reserved) << port;
  }
}

TEST(ReservedPortsTest, EachConnectionToAServerHasItsOwnPortUntilNoneIsFree) {
  AloneInANetwork([] {
    const auto provider = NewIwarpProvider();
    auto listener = provider->Listen(LoopbackAddress());
    ASSERT_TRUE(listener.ok()) << listener.status();
    Connections connections;
    std::set<uint16_t> ports;
    for (int i = 0; i < 512; ++i) {
      auto port = connections.Add(*provider, **listener);
      ASSERT_TRUE(port.ok()) << port.status();
      EXPECT_LT(*port, IPPORT_RESERVED);
      EXPECT_TRUE(ports.insert(*port).second);
    }
    auto none = connections.Add(*provider, **listener);
    EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(none.status().message()),
                ::testing::HasSubstr("none of the local ports 512 to 1023 is free"));
    // For another server all ports are free.
    auto other = provider->Listen(LoopbackAddress());
    ASSERT_TRUE(other.ok()) << other.status();
    auto port = connections.Add(*provider, **other);
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_LT(*port, IPPORT_RESERVED);
    // A client that may use any port can connect.
    const auto any = NewIwarpProvider({.reserved_port = false});
    port = connections.Add(*any, **listener);
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_GE(*port, IPPORT_RESERVED);
    connections.endpoints.clear();
  });
}

}  // namespace
}  // namespace dafs::dat::testing
