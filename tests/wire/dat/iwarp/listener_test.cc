// Set-up of connections with unknown peers: which are refused, and the cost of a silent or broken
// peer.
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/wire/dat/iwarp/raw_peer.h"
#include "wire/dat/iwarp/handshake.h"

namespace dafs::dat::testing {
namespace {

class IwarpListen : public ::testing::Test {
 protected:
  void Start(const IwarpOptions& options = {}) {
    provider_ = NewIwarpProvider(options);
    auto listener = provider_->Listen(LoopbackAddress());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  // Makes a peer. The listener is polled while the peer reads. Complete requests go to pending_.
  std::unique_ptr<RawPeer> NewPeer() {
    auto peer = RawPeer::ConnectTo(listener_->local());
    if (peer != nullptr) peer->set_pump([this] { Turn(); });
    return peer;
  }
  void Turn() {
    auto next = listener_->Next();
    ASSERT_TRUE(next.ok()) << next.status();
    if (*next != nullptr) pending_.push_back(*std::move(next));
  }

  std::unique_ptr<Provider> provider_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<PendingEndpoint>> pending_;
};

TEST_F(IwarpListen, MarkersAreRefusedWithAReject) {
  Start();
  auto peer = NewPeer();
  const ByteString reply = peer->Handshake({.markers = true}, "data");
  EXPECT_EQ(ToHex(reply), "4d504120494420526570204672616d6520010000");
  EXPECT_TRUE(peer->AtEnd());
  EXPECT_TRUE(pending_.empty());
}

TEST_F(IwarpListen, UnknownRevisionIsRefusedWithAReject) {
  Start();
  for (const uint8_t revision : std::initializer_list<uint8_t>{0, 3, 255}) {
    auto peer = NewPeer();
    iwarp::MpaFrame request;
    request.revision = revision;
    EXPECT_EQ(ToHex(peer->Handshake(request, "")), "4d504120494420526570204672616d6520010000");
    EXPECT_TRUE(peer->AtEnd());
  }
}

TEST_F(IwarpListen, UnknownProtocolIsClosedWithoutAnAnswer) {
  Start();
  for (const std::string text :
       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "MPA ID Rep Frame\0\1\0\0....."}) {
    auto peer = NewPeer();
    ASSERT_TRUE(peer->Write(Bytes(text + std::string(20, 'x'))));
    EXPECT_TRUE(peer->AtEnd());
  }
  // Private data longer than MPA allows.
  auto peer = NewPeer();
  ASSERT_TRUE(peer->Write(FromHex("4d504120494420526571204672616d650001ffff")));
  EXPECT_TRUE(peer->AtEnd());
  EXPECT_TRUE(pending_.empty());
}

TEST_F(IwarpListen, DroppedRequestIsRejected) {
  Start();
  auto peer = NewPeer();
  peer->set_pump([this] { (void)listener_->Next(); });
  EXPECT_EQ(ToHex(peer->Handshake({.crc = true}, "data")),
            "4d504120494420526570204672616d6560010000");
  EXPECT_TRUE(peer->AtEnd());
}

TEST_F(IwarpListen, HalfRequestsAreBoundedAndTheOldestIsDroppedFirst) {
  Start({.max_half_open = 4});
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 6; ++i) {
    peers.push_back(NewPeer());
    ASSERT_TRUE(peers.back()->Write(FromHex("4d5041")));
    Turn();
  }
  EXPECT_TRUE(peers[0]->AtEnd());
  EXPECT_TRUE(peers[1]->AtEnd());
  // The listener still waits for the others, and they can finish.
  ASSERT_TRUE(peers[2]->Write(FromHex("20494420526571204672616d6500010000")));
  const absl::Time deadline = Loop::Now() + kPatience;
  while (pending_.empty() && Loop::Now() < deadline) Turn();
  EXPECT_EQ(pending_.size(), 1u);
}

TEST_F(IwarpListen, HalfRequestsTimeOutAndWakeASleepingThread) {
  Start({.handshake_timeout = absl::Milliseconds(50)});
  auto peer = NewPeer();
  ASSERT_TRUE(peer->Write(FromHex("4d5041")));
  Turn();
  // Sleeps until the handle is ready: first for the bytes, then for the timeout.
  const absl::Time deadline = Loop::Now() + kPatience;
  bool closed = false;
  while (!closed && Loop::Now() < deadline) {
    const WaitHandle handle = listener_->Arm();
    pollfd ready = {.fd = handle.fd, .events = static_cast<short>(handle.events), .revents = 0};
    ASSERT_EQ(poll(&ready, 1, 60000), 1);
    Turn();
    pollfd end = {.fd = peer->fd(), .events = POLLIN, .revents = 0};
    closed = poll(&end, 1, 0) == 1;
  }
  EXPECT_TRUE(closed);
  EXPECT_TRUE(peer->AtEnd());
}

TEST_F(IwarpListen, ConnectToASilentServerTimesOut) {
  Start({.handshake_timeout = absl::Milliseconds(50)});
  auto pending = provider_->Resolve(listener_->local(), "", absl::Seconds(1));
  ASSERT_TRUE(pending.ok());
  Side side;
  side.domain = *(*pending)->NewDomain();
  side.endpoint = *(*pending)->CreateEndpoint(*side.domain, {});
  ASSERT_TRUE(side.endpoint->Connect({}).ok());
  while (side.Count(Event::kDisconnected) == 0) {
    const WaitHandle handle = side.endpoint->Arm();
    if (handle.fd >= 0) {
      pollfd ready = {.fd = handle.fd, .events = static_cast<short>(handle.events), .revents = 0};
      ASSERT_EQ(poll(&ready, 1, 60000), 1);
    }
    side.Poll();
  }
  EXPECT_EQ(side.Take(Event::kDisconnected)->status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(IwarpListen, DeviceNameIsRefusedForTcp) {
  Start();
  EXPECT_TRUE(absl::IsInvalidArgument(
      provider_->Resolve(listener_->local(), "mlx5_0", absl::Seconds(1)).status()));
}

TEST_F(IwarpListen, PortInUseIsReported) {
  Start();
  EXPECT_TRUE(absl::IsUnavailable(provider_->Listen(listener_->local()).status()));
}

}  // namespace
}  // namespace dafs::dat::testing
