// One suite over every provider: memory windows. The server's side has them. The client is the peer
// that tries to access more. See conformance_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/wire/dat/conformance_fixture.h"

namespace dafs::dat::testing {
namespace {

constexpr size_t kBytes = 65536;
constexpr size_t kStart = 8192;  // offset of the window
constexpr uint32_t kSize = 4096;
constexpr uint32_t kMost = 4;

class Windows : public ConformanceFixture {
 protected:
  void SetUp() override {
    ConformanceFixture::SetUp();
    if (IsSkipped()) return;
    if (!GetParam().windows) GTEST_SKIP() << "the server side has no memory windows";
  }
  // Connects. Makes server memory that is accessible by windows only, client memory to move from
  // and to, and receives on both sides.
  void Begin() {
    EndpointOptions options;
    options.max_windows = kMost;
    Prepare(options);
    memory_ = NewMemory(*pair_->server.domain, kBytes, Access::kWindows);
    ASSERT_NE(memory_.region, nullptr);
    own_ = NewMemory(*pair_->client.domain, kBytes, Access::kLocal, -3);
    in_ = NewMemory(*pair_->server.domain, 64, Access::kLocal);
    reply_ = NewMemory(*pair_->client.domain, 64, Access::kLocal);
    ASSERT_TRUE(server().PostReceive(1, in_.All()).ok());
    ASSERT_TRUE(client().PostReceive(1, reply_.All()).ok());
    Finish();
  }
  // The memory must be freed before its domain.
  void End() {
    if (pair_ == nullptr) return;
    for (Side* side : {&pair_->client, &pair_->server}) side->endpoint.reset();
    for (Memory* memory : {&memory_, &own_, &in_, &reply_}) memory->region.reset();
    pair_.reset();
  }
  void TearDown() override { End(); }

  RemoteBuffer Bind(Access access, size_t start = kStart, uint32_t size = kSize) {
    auto window = server().PostBind(memory_.At(start, size), access);
    EXPECT_TRUE(window.ok()) << window.status();
    return window.value_or(RemoteBuffer());
  }
  // The server sends a message, as a request would announce a window. All earlier binds are
  // complete when it arrives.
  void SendRequest() {
    const Segment message = in_.All();
    ASSERT_TRUE(server().PostSend(7, {&message, 1}, {}).ok());
    ASSERT_TRUE(pair_->Await(pair_->client, Event::kReceive).has_value());
    ASSERT_TRUE(client().PostReceive(1, reply_.All()).ok());
  }
  // The client's answer. With `invalidate` it is a Send with Invalidate.
  std::optional<Completion> Answer(std::optional<uint32_t> invalidate) {
    Endpoint::SendOptions options;
    options.invalidate_context = invalidate;
    EXPECT_TRUE(client().PostSend(8, {}, options).ok());
    auto received = pair_->Await(pair_->server, Event::kReceive);
    if (received.has_value() && received->status.ok()) {
      EXPECT_TRUE(server().PostReceive(1, in_.All()).ok());
    }
    return received;
  }
  void Write(RemoteBuffer to, uint32_t size = kSize) {
    const Segment from = own_.At(0, size);
    ASSERT_TRUE(client().PostRdmaWrite(2, {&from, 1}, to, false).ok());
  }
  bool Placed(size_t start, size_t size) const {
    return std::equal(own_.bytes.begin(), own_.bytes.begin() + static_cast<std::ptrdiff_t>(size),
                      memory_.bytes.begin() + static_cast<std::ptrdiff_t>(start));
  }
  // The client's last request ended the connection and changed nothing.
  void ExpectRefused(const char* what) {
    EXPECT_TRUE(pair_->Until([&] { return pair_->client.Count(Event::kDisconnected) > 0; }))
        << what;
    EXPECT_TRUE(std::ranges::all_of(memory_.bytes, [](std::byte b) { return b == std::byte{}; }))
        << what;
  }

  Memory memory_;
  Memory own_;
  Memory in_;
  Memory reply_;
};
INSTANTIATE_TEST_SUITE_P(Providers, Windows, ::testing::ValuesIn(ConformanceCases()), CaseName);

TEST_P(Windows, GrantsItsRightOnItsRange) {
  Begin();
  const RemoteBuffer target = Bind(Access::kRemoteWrite);
  const RemoteBuffer source = Bind(Access::kRemoteRead, 3 * kStart + 5, 777);
  EXPECT_NE(target.context, source.context);
  std::ranges::fill(std::span(memory_.bytes).subspan(3 * kStart, kSize), std::byte{0x5a});
  SendRequest();
  Write(target);
  const Segment into = own_.At(kStart, 777);
  ASSERT_TRUE(client().PostRdmaRead(3, {&into, 1}, source).ok());
  const auto read = pair_->Await(pair_->client, Event::kRdmaRead);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(read->status.ok()) << read->status;
  EXPECT_EQ(own_.bytes[kStart + 776], std::byte{0x5a});
  ASSERT_TRUE(Answer(std::nullopt).has_value());
  EXPECT_TRUE(Placed(kStart, kSize));
}

// Shows DAFS-E.6-02: the peer posts the same for both.
TEST_P(Windows, PeerUsesAWindowAsItUsesARegion) {
  Begin();
  Memory region = NewMemory(*pair_->server.domain, kBytes, Access::kRemoteWrite);
  const RemoteBuffer window = Bind(Access::kRemoteWrite);
  SendRequest();
  for (const RemoteBuffer& target : {window, region.Remote(kStart)}) Write(target);
  ASSERT_TRUE(Answer(std::nullopt).has_value());
  EXPECT_TRUE(Placed(kStart, kSize));
  EXPECT_TRUE(
      std::equal(own_.bytes.begin(), own_.bytes.begin() + kSize, region.bytes.begin() + kStart));
}

TEST_P(Windows, DeniesAccessOutsideItsBounds) {
  if (!GetParam().windows_have_bounds)
    GTEST_SKIP() << "rdma_rxe checks only the bounds of the region";
  for (const int64_t offset : {int64_t{-1}, int64_t{1}, int64_t{kSize}, int64_t{2 * kStart}}) {
    ASSERT_NO_FATAL_FAILURE(Begin());
    RemoteBuffer target = Bind(Access::kRemoteWrite);
    SendRequest();
    target.target_address += static_cast<uint64_t>(offset);
    Write(target);
    ExpectRefused("outside the window");
    End();
  }
}

TEST_P(Windows, DeniesTheOtherRight) {
  Begin();
  RemoteBuffer target = Bind(Access::kRemoteRead);
  SendRequest();
  Write(target);
  ExpectRefused("a write with a window for reads");
  End();

  Begin();
  RemoteBuffer source = Bind(Access::kRemoteWrite);
  SendRequest();
  const Segment into = own_.At(0, kSize);
  const std::vector<std::byte> before = own_.bytes;
  ASSERT_TRUE(client().PostRdmaRead(3, {&into, 1}, source).ok());
  ExpectRefused("a read with a window for writes");
  EXPECT_EQ(own_.bytes, before);
}

TEST_P(Windows, RegionItselfIsNotAccessible) {
  Begin();
  Write(memory_.Remote(kStart));
  ExpectRefused("a write with the context of the region");
}

TEST_P(Windows, DeniesAccessAfterThePeerHasInvalidatedIt) {
  Begin();
  const RemoteBuffer target = Bind(Access::kRemoteWrite);
  SendRequest();
  const auto received = Answer(target.context);
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->invalidated_context, target.context);
  EXPECT_TRUE(absl::IsNotFound(server().PostInvalidate(1, target.context)));
  Write(target);
  ExpectRefused("a write after Send with Invalidate");
}

TEST_P(Windows, DeniesAccessAfterItsOwnerHasInvalidatedIt) {
  Begin();
  const RemoteBuffer target = Bind(Access::kRemoteWrite);
  SendRequest();
  ASSERT_TRUE(server().PostInvalidate(99, target.context).ok());
  EXPECT_TRUE(absl::IsNotFound(server().PostInvalidate(98, target.context)));
  const auto ended = pair_->Await(pair_->server, Event::kInvalidated);
  ASSERT_TRUE(ended.has_value());
  EXPECT_TRUE(ended->status.ok()) << ended->status;
  EXPECT_EQ(ended->cookie, 99u);
  Write(target);
  ExpectRefused("a write after the invalidation");
}

TEST_P(Windows, DeniesAccessFromALaterConnection) {
  Begin();
  const RemoteBuffer target = Bind(Access::kRemoteWrite);
  SendRequest();
  server().Abort(absl::CancelledError("enough"));
  ASSERT_TRUE(pair_->Until([&] { return pair_->server.Count(Event::kDisconnected) > 0; }));
  EXPECT_TRUE(
      absl::IsUnavailable(server().PostBind(memory_.At(0, 1), Access::kRemoteWrite).status()));
  EXPECT_TRUE(absl::IsNotFound(server().PostInvalidate(1, target.context)));

  // Another connection with the same memory and domain.
  pair_->client.endpoint.reset();
  pair_->server.endpoint.reset();
  pair_->client.seen.clear();
  pair_->server.seen.clear();
  auto calling = client_provider().Resolve(pair_->listener->local(), "", absl::Seconds(5));
  ASSERT_TRUE(calling.ok());
  pair_->client.endpoint = *(*calling)->CreateEndpoint(*pair_->client.domain, {});
  ASSERT_TRUE(client().Connect({}).ok());
  ASSERT_TRUE(pair_->Until([&] {
    auto called = pair_->listener->Next();
    if (!called.ok() || *called == nullptr) return false;
    pair_->server.endpoint = *(*called)->CreateEndpoint(*pair_->server.domain, {});
    return true;
  }));
  Finish();
  Write(target);
  ExpectRefused("a write with a window of an earlier connection");
}

// The test binds, uses and ends windows repeatedly, by the peer and by the owner. Each gets a new
// name, and at most the requested number exists at a time.
TEST_P(Windows, ServesManyRequestsInSuccession) {
  Begin();
  uint32_t last = 0;
  for (uint32_t i = 0; i < 500; ++i) {
    const size_t start = 16 * size_t{i};
    const RemoteBuffer target = Bind(Access::kRemoteWrite, start, 64);
    ASSERT_NE(target.context, last);
    last = target.context;
    SendRequest();
    Write(target, 64);
    const bool by_peer = i % 3 != 0;
    const auto answer = Answer(by_peer ? std::optional(target.context) : std::nullopt);
    ASSERT_TRUE(answer.has_value() && answer->status.ok());
    ASSERT_TRUE(Placed(start, 64)) << i;
    if (by_peer) continue;
    ASSERT_TRUE(server().PostInvalidate(i, target.context).ok());
    ASSERT_TRUE(pair_->Await(pair_->server, Event::kInvalidated).has_value());
  }
}

TEST_P(Windows, BindBeyondTheRequestedNumberIsRefused) {
  Begin();
  std::vector<RemoteBuffer> bound;
  for (uint32_t i = 0; i < kMost; ++i) bound.push_back(Bind(Access::kRemoteWrite, i * kSize));
  const Segment part = memory_.At(0, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(server().PostBind(part, Access::kRemoteWrite).status()));
  EXPECT_TRUE(absl::IsNotFound(server().PostInvalidate(1, 0xdeadbeef)));
  ASSERT_TRUE(server().PostInvalidate(1, bound.front().context).ok());
  ASSERT_TRUE(pair_->Await(pair_->server, Event::kInvalidated).has_value());
  EXPECT_TRUE(server().PostBind(part, Access::kRemoteWrite).ok());
  // Memory without Access::kWindows has no windows.
  const Segment plain = in_.All();
  EXPECT_TRUE(absl::IsInvalidArgument(server().PostBind(plain, Access::kRemoteWrite).status()));
}

}  // namespace
}  // namespace dafs::dat::testing
