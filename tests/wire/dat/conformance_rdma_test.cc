// One suite over every provider: RDMA writes and reads. See conformance_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/wire/dat/conformance_fixture.h"

namespace dafs::dat::testing {
namespace {

class Rdma : public ConformanceFixture {};
INSTANTIATE_TEST_SUITE_P(Providers, Rdma, ::testing::ValuesIn(ConformanceCases()), CaseName);

// Shows DAFS-B.5-01, DAFS-B.5-04, DAFS-B.6-01, DAFS-2.3.3-11, DDP-2-01, DDP-3-01,
// DDP-3-03, DDP-3.1-05, FAST03-2-01.
// Shows DAFS-2.3.3-07 for writes: each message finds the one receive that was posted for it.
TEST_P(Rdma, RdmaWriteIsVisibleBeforeTheNextSend) {
  Open();
  Memory small = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  Memory target = NewMemory(*pair_->server.domain, 300000, Access::kRemoteWrite);
  const Segment message = small.All();
  for (int round = 1; round <= 60; ++round) {
    const size_t size = static_cast<size_t>(round) * 4099;
    Memory source = NewMemory(*pair_->client.domain, size, Access::kLocal, round);
    const Segment data = source.All();
    const auto offset = static_cast<size_t>(round);
    ASSERT_TRUE(server().PostReceive(1, in.All()).ok());
    ASSERT_TRUE(client().PostRdmaWrite(2, {&data, 1}, target.Remote(offset), false).ok());
    ASSERT_TRUE(client().PostSend(3, {&message, 1}, {}).ok());
    ASSERT_TRUE(pair_->Await(pair_->server, Event::kReceive).has_value());
    ASSERT_EQ(std::memcmp(&target.bytes[offset], source.bytes.data(), size), 0) << round;
    ASSERT_TRUE(pair_->Await(pair_->client, Event::kSend).has_value());
  }
  EXPECT_EQ(target.bytes[0], std::byte{0});  // nothing outside the range
  EXPECT_EQ(pair_->client.Count(Event::kRdmaWrite), 0u);
}

// Shows DAFS-2.3.3-08. A device that sends by reference must not complete the send before it owns
// the bytes. The peer may receive them much later, after the source has changed.
TEST_P(Rdma, SourceIsFreeAfterALaterSignaledSendCompletes) {
  Open();
  Memory small = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  Memory small_server = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  auto move = [](Side& from, const Memory& message, Side& to, size_t size) {
    Memory in = NewMemory(*to.domain, 64, Access::kLocal);
    Memory target = NewMemory(*to.domain, size, Access::kRemoteWrite);
    Memory source = NewMemory(*from.domain, size, Access::kLocal, -3);
    const std::vector<std::byte> expected = source.bytes;
    const Segment data = source.All();
    const Segment text = message.All();
    ASSERT_TRUE(to.endpoint->PostReceive(1, in.All()).ok());
    ASSERT_TRUE(from.endpoint->PostRdmaWrite(2, {&data, 1}, target.Remote(), false).ok());
    ASSERT_TRUE(from.endpoint->PostSend(3, {&text, 1}, {}).ok());
    // The receiver polls only after the sender has overwritten its buffer.
    const absl::Time deadline = Loop::Now() + kPatience;
    while (from.Count(Event::kSend) == 0 && Loop::Now() < deadline) from.Poll();
    ASSERT_TRUE(from.Take(Event::kSend).has_value());
    std::ranges::fill(source.bytes, std::byte{0xee});
    while (to.Count(Event::kReceive) == 0 && Loop::Now() < deadline) to.Poll();
    ASSERT_TRUE(to.Take(Event::kReceive).has_value());
    EXPECT_TRUE(target.bytes == expected) << size;
  };
  for (const size_t size : {size_t{512}, size_t{4096}, size_t{8192}, size_t{32768}}) {
    ASSERT_NO_FATAL_FAILURE(move(pair_->client, small, pair_->server, size));
    ASSERT_NO_FATAL_FAILURE(move(pair_->server, small_server, pair_->client, size));
  }
}

// Shows DAFS-2.3.3-07 for reads: the target has posted no receive.
TEST_P(Rdma, RdmaReadFetchesTheData) {
  Open();
  Memory source = NewMemory(*pair_->client.domain, 500000, Access::kRemoteRead, -9);
  Memory sink = NewMemory(*pair_->server.domain, 500000, Access::kLocal);
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{65536}, size_t{400001}}) {
    const Segment into = sink.At(3, size);
    ASSERT_TRUE(server().PostRdmaRead(size, {&into, 1}, source.Remote(11)).ok());
    const auto read = pair_->Await(pair_->server, Event::kRdmaRead);
    ASSERT_TRUE(read.has_value());
    EXPECT_TRUE(read->status.ok()) << read->status;
    EXPECT_EQ(read->cookie, size);
    EXPECT_EQ(std::memcmp(&sink.bytes[3], &source.bytes[11], size), 0);
    EXPECT_EQ(sink.bytes[3 + size], std::byte{0});
  }
}

// Shows DAFS-B.6-03: four of each kind, both ways, before any of them completes.
TEST_P(Rdma, OperationsOfEveryKindAreActiveAtOnce) {
  constexpr size_t kEach = 4;
  constexpr size_t kSize = 5000;
  EndpointOptions options;
  options.max_rdma_reads = kEach;
  Prepare(options);
  struct End {
    Side& side;
    Memory in, out, target, sink;
  };
  const auto make = [](Side& side, int fill) {
    return End{side, NewMemory(*side.domain, kEach * kSize, Access::kLocal),
               NewMemory(*side.domain, kEach * kSize, Access::kRemoteRead, fill),
               NewMemory(*side.domain, kEach * kSize, Access::kRemoteWrite),
               NewMemory(*side.domain, kEach * kSize, Access::kLocal)};
  };
  End ends[] = {make(pair_->client, -1), make(pair_->server, -2)};
  for (const End& end : ends) {
    for (size_t i = 0; i < kEach; ++i) {
      ASSERT_TRUE(end.side.endpoint->PostReceive(i, end.in.At(i * kSize, kSize)).ok());
    }
  }
  Finish();
  for (size_t e = 0; e < 2; ++e) {
    const End& end = ends[e];
    const End& peer = ends[1 - e];
    for (size_t i = 0; i < kEach; ++i) {
      const Segment from = end.out.At(i * kSize, kSize);
      const Segment into = end.sink.At(i * kSize, kSize);
      Endpoint& endpoint = *end.side.endpoint;
      ASSERT_TRUE(endpoint.PostSend(i, {&from, 1}, {}).ok());
      ASSERT_TRUE(endpoint.PostRdmaWrite(i, {&from, 1}, peer.target.Remote(i * kSize), true).ok());
      ASSERT_TRUE(endpoint.PostRdmaRead(i, {&into, 1}, peer.out.Remote(i * kSize)).ok());
    }
  }
  for (size_t e = 0; e < 2; ++e) {
    const End& end = ends[e];
    for (const Event event : {Event::kSend, Event::kReceive, Event::kRdmaWrite, Event::kRdmaRead}) {
      for (size_t i = 0; i < kEach; ++i) {
        const auto done = pair_->Await(end.side, event);
        ASSERT_TRUE(done.has_value());
        EXPECT_TRUE(done->status.ok()) << done->status;
        EXPECT_EQ(done->cookie, i);
      }
    }
  }
  // Only the peer's last read shows that its last write has arrived.
  for (size_t e = 0; e < 2; ++e) {
    const End& end = ends[e];
    const End& peer = ends[1 - e];
    EXPECT_EQ(end.in.bytes, peer.out.bytes);
    EXPECT_EQ(end.target.bytes, peer.out.bytes);
    EXPECT_EQ(end.sink.bytes, peer.out.bytes);
  }
}

TEST_P(Rdma, ReadsBeyondTheLimitCompleteInOrderAndDelayNoSend) {
  EndpointOptions options;
  options.max_rdma_reads = 2;
  Prepare(options);
  Memory in = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  ASSERT_TRUE(client().PostReceive(1, in.All()).ok());
  Finish();
  Memory source = NewMemory(*pair_->client.domain, 20 * 30000, Access::kRemoteRead, -4);
  Memory sink = NewMemory(*pair_->server.domain, 20 * 30000, Access::kLocal);
  Memory small = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  for (size_t i = 0; i < 20; ++i) {
    const Segment into = sink.At(i * 30000, 30000);
    ASSERT_TRUE(server().PostRdmaRead(i, {&into, 1}, source.Remote(i * 30000)).ok());
  }
  const Segment message = small.All();
  ASSERT_TRUE(server().PostSend(99, {&message, 1}, {}).ok());
  // Posted after 20 reads, of which two may be in flight.
  ASSERT_TRUE(pair_->Await(pair_->client, Event::kReceive).has_value());
  for (uint64_t i = 0; i < 20; ++i) {
    const auto read = pair_->Await(pair_->server, Event::kRdmaRead);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->cookie, i);
    EXPECT_TRUE(read->status.ok()) << read->status;
  }
  EXPECT_EQ(sink.bytes, source.bytes);
}

// Shows DAFS-2.3.3-01.
TEST_P(Rdma, GathersAndScattersOverAllItsSegments) {
  EndpointOptions options;
  options.max_segments = GetParam().max_segments;
  Prepare(options);
  const size_t count = client().max_segments();
  ASSERT_GE(count, 1u);
  const size_t total = count * 613;
  Memory in = NewMemory(*pair_->server.domain, total, Access::kLocal);
  ASSERT_TRUE(server().PostReceive(1, in.All()).ok());
  Finish();
  Memory from = NewMemory(*pair_->client.domain, total, Access::kRemoteRead, -6);
  Memory target = NewMemory(*pair_->server.domain, total, Access::kRemoteWrite);
  // Pieces of uneven sizes, last to first, some empty. Short and long ones alternate, with more
  // short ones than an iwarp endpoint copies into one batch.
  std::vector<Segment> pieces;
  std::vector<std::byte> expected;
  for (size_t i = count; i-- > 0;) {
    pieces.push_back(from.At(i * 613, i % 5 == 4 ? 0 : 1 + i * 37 % 613));
    expected.insert(expected.end(), pieces.back().data,
                    pieces.back().data + pieces.back().size_bytes);
  }
  ASSERT_TRUE(client().PostRdmaWrite(1, pieces, target.Remote(), false).ok());
  ASSERT_TRUE(client().PostSend(2, pieces, {}).ok());
  const auto received = pair_->Await(pair_->server, Event::kReceive);
  ASSERT_TRUE(received.has_value());
  ASSERT_EQ(received->size_bytes, expected.size());
  EXPECT_EQ(std::memcmp(in.bytes.data(), expected.data(), expected.size()), 0);
  EXPECT_EQ(std::memcmp(target.bytes.data(), expected.data(), expected.size()), 0);

  Memory sink = NewMemory(*pair_->server.domain, total, Access::kLocal);
  std::vector<Segment> into;
  for (size_t i = count; i-- > 0;) into.push_back(sink.At(i * 613, i % 7 == 6 ? 0 : 1 + i % 613));
  ASSERT_TRUE(server().PostRdmaRead(3, into, from.Remote(1)).ok());
  const auto read = pair_->Await(pair_->server, Event::kRdmaRead);
  ASSERT_TRUE(read.has_value());
  ASSERT_TRUE(read->status.ok()) << read->status;
  size_t offset = 1;
  for (const Segment& piece : into) {
    EXPECT_EQ(std::memcmp(piece.data, &from.bytes[offset], piece.size_bytes), 0);
    offset += piece.size_bytes;
  }
}

// Shows DAFS-B.6-02
TEST_P(Rdma, Moves64MiBInBothDirectionsAtOnce) {
  constexpr size_t kBytes = 64 << 20;
  Open();
  Memory at_client = NewMemory(*pair_->client.domain, kBytes, Access::kRemoteBoth, -1);
  Memory at_server = NewMemory(*pair_->server.domain, kBytes, Access::kRemoteBoth, -2);
  Memory to_client = NewMemory(*pair_->client.domain, kBytes, Access::kRemoteWrite);
  Memory to_server = NewMemory(*pair_->server.domain, kBytes, Access::kRemoteWrite);
  const Segment up = at_client.All();
  const Segment down = at_server.All();
  ASSERT_TRUE(client().PostRdmaWrite(1, {&up, 1}, to_server.Remote(), true).ok());
  ASSERT_TRUE(server().PostRdmaWrite(2, {&down, 1}, to_client.Remote(), true).ok());
  // Reads of the last bytes written. Their responses prove that the writes have arrived.
  Memory last = NewMemory(*pair_->client.domain, 16, Access::kLocal);
  Memory last_server = NewMemory(*pair_->server.domain, 16, Access::kLocal);
  const Segment into = last.All();
  const Segment into_server = last_server.All();
  ASSERT_TRUE(client().PostRdmaRead(3, {&into, 1}, at_server.Remote(kBytes - 16)).ok());
  ASSERT_TRUE(server().PostRdmaRead(4, {&into_server, 1}, at_client.Remote(kBytes - 16)).ok());
  for (Side* side : {&pair_->client, &pair_->server}) {
    ASSERT_TRUE(pair_->Await(*side, Event::kRdmaWrite)->status.ok());
    ASSERT_TRUE(pair_->Await(*side, Event::kRdmaRead)->status.ok());
  }
  EXPECT_TRUE(to_server.bytes == at_client.bytes);
  EXPECT_TRUE(to_client.bytes == at_server.bytes);
}

// Shows DAFS-2.3.3-13, DAFS-2.3.3-14: two connections share one context, and each has several.
TEST_P(Rdma, ChannelsOfADomainShareItsRegions) {
  Open();
  auto listener = server_provider().Listen(GetParam().address());
  ASSERT_TRUE(listener.ok());
  auto pending = client_provider().Resolve((*listener)->local(), "", absl::Seconds(5));
  ASSERT_TRUE(pending.ok());
  ASSERT_TRUE((*pending)->Fits(*pair_->client.domain));
  auto second = (*pending)->CreateEndpoint(*pair_->client.domain, {});
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_TRUE((*second)->Connect({}).ok());
  Side other;
  const bool accepted = pair_->Until([&] {
    Completion some[4];
    (*second)->Poll(some);
    auto called = (*listener)->Next();
    if (!called.ok() || *called == nullptr) return false;
    other.domain = *(*called)->NewDomain();
    other.endpoint = *(*called)->CreateEndpoint(*other.domain, {});
    return true;
  });
  ASSERT_TRUE(accepted);
  ASSERT_TRUE(other.endpoint->Accept({}).ok());
  Memory source = NewMemory(*other.domain, 100, Access::kLocal, 8);
  Memory target = NewMemory(*pair_->client.domain, 100, Access::kRemoteWrite);
  Memory in = NewMemory(*pair_->client.domain, 100, Access::kLocal);
  ASSERT_TRUE((*second)->PostReceive(1, in.All()).ok());
  const Segment all = source.All();
  bool posted = false;
  bool received = false;
  pair_->Until([&] {
    other.Poll();
    // The client speaks first (RFC 5044, 7.1.2): one empty write lets an adapter answer.
    Completion some[4];
    const size_t count = (*second)->Poll(some);
    for (size_t i = 0; i < count; ++i) {
      if (some[i].event == Event::kConnected) {
        EXPECT_TRUE((*second)->PostRdmaWrite(1, {}, {}, false).ok());
      }
      received |= some[i].event == Event::kReceive && some[i].status.ok();
    }
    if (!posted && other.Take(Event::kConnected).has_value()) {
      posted = true;
      EXPECT_TRUE(other.endpoint->PostRdmaWrite(1, {&all, 1}, target.Remote(), false).ok());
      EXPECT_TRUE(other.endpoint->PostSend(2, {&all, 1}, {}).ok());
    }
    return received;
  });
  EXPECT_TRUE(received);
  EXPECT_EQ(target.bytes, source.bytes);
  // The first connection reaches the region too, as it reached another one before.
  Memory beside = NewMemory(*pair_->client.domain, 100, Access::kRemoteWrite);
  Memory last = NewMemory(*pair_->server.domain, 100, Access::kLocal, 9);
  const Segment data = last.All();
  ASSERT_TRUE(client().PostReceive(3, in.All()).ok());
  ASSERT_TRUE(server().PostRdmaWrite(4, {&data, 1}, beside.Remote(), false).ok());
  ASSERT_TRUE(server().PostRdmaWrite(5, {&data, 1}, target.Remote(), false).ok());
  ASSERT_TRUE(server().PostSend(6, {&data, 1}, {}).ok());
  ASSERT_TRUE(pair_->Await(pair_->client, Event::kReceive).has_value());
  EXPECT_EQ(beside.bytes, last.bytes);
  EXPECT_EQ(target.bytes, last.bytes);
  second->reset();
}

// Shows DAFS-2.3.3-15.
TEST_P(Rdma, MemoryCanHaveSeveralContexts) {
  Prepare();
  Memory in = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  ASSERT_TRUE(client().PostReceive(1, in.All()).ok());
  Finish();
  Memory memory = NewMemory(*pair_->client.domain, 4096, Access::kRemoteWrite);
  auto part = pair_->client.domain->Register(std::span(memory.bytes).subspan(1000, 100),
                                             Access::kRemoteWrite);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_NE((*part)->context(), memory.region->context());
  Memory source = NewMemory(*pair_->server.domain, 100, Access::kLocal, 7);
  const Segment first = source.At(0, 50);
  const Segment second = source.At(50, 50);
  const RemoteBuffer by_part{.target_address = (*part)->target_address() + 50,
                             .context = (*part)->context()};
  ASSERT_TRUE(server().PostRdmaWrite(1, {&first, 1}, memory.Remote(1000), false).ok());
  ASSERT_TRUE(server().PostRdmaWrite(2, {&second, 1}, by_part, false).ok());
  ASSERT_TRUE(server().PostSend(3, {&first, 1}, {}).ok());
  ASSERT_TRUE(pair_->Await(pair_->client, Event::kReceive).has_value());
  EXPECT_EQ(std::memcmp(&memory.bytes[1000], source.bytes.data(), 100), 0);
}

}  // namespace
}  // namespace dafs::dat::testing
