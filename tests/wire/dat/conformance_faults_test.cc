// One suite over every provider: how connections fail and end. See conformance_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/wire/dat/conformance_fixture.h"

namespace dafs::dat::testing {
namespace {

class Faults : public ConformanceFixture {
 protected:
  // Both ends report kDisconnected once, as their last event.
  void ExpectBothEnd() {
    for (Side* side : {&pair_->client, &pair_->server}) {
      ASSERT_TRUE(pair_->Until([&] { return side->Count(Event::kDisconnected) > 0; }));
      EXPECT_EQ(side->seen.back().event, Event::kDisconnected);
      EXPECT_EQ(side->Count(Event::kDisconnected), 1u);
      Completion more[4];
      EXPECT_EQ(side->endpoint->Poll(more), 0u);
      EXPECT_TRUE(absl::IsUnavailable(side->endpoint->PostSend(1, {}, {})));
      EXPECT_TRUE(absl::IsUnavailable(side->endpoint->PostReceive(1, {})));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Providers, Faults, ::testing::ValuesIn(ConformanceCases()), CaseName);

// Shows DAFS-B.4-01
TEST_P(Faults, RefusedConnectionIsReportedToTheClient) {
  auto listener = server_provider().Listen(GetParam().address());
  ASSERT_TRUE(listener.ok());
  auto pending = client_provider().Resolve((*listener)->local(), "", absl::Seconds(5));
  ASSERT_TRUE(pending.ok());
  Side side;
  side.domain = *(*pending)->NewDomain();
  side.endpoint = *(*pending)->CreateEndpoint(*side.domain, {});
  ASSERT_TRUE(side.endpoint->Connect({}).ok());
  const absl::Time deadline = Loop::Now() + kPatience;
  while (side.Count(Event::kDisconnected) == 0 && Loop::Now() < deadline) {
    side.Poll();
    (void)(*listener)->Next();  // drops the request: refused
  }
  EXPECT_EQ(side.Count(Event::kConnected), 0u);
  const auto end = side.Take(Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->status.ok());
}

TEST_P(Faults, MissingListenerIsReportedToTheClient) {
  Address address;
  {
    auto listener = server_provider().Listen(GetParam().address());
    ASSERT_TRUE(listener.ok());
    address = (*listener)->local();
  }
  auto pending = client_provider().Resolve(address, "", absl::Seconds(5));
  ASSERT_TRUE(pending.ok()) << pending.status();
  Side side;
  side.domain = *(*pending)->NewDomain();
  side.endpoint = *(*pending)->CreateEndpoint(*side.domain, {});
  const absl::Status connect = side.endpoint->Connect({});
  if (!connect.ok()) return;  // a device may report it immediately
  const absl::Time deadline = Loop::Now() + kPatience;
  while (side.Count(Event::kDisconnected) == 0 && Loop::Now() < deadline) side.Poll();
  const auto end = side.Take(Event::kDisconnected);
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->status.ok());
}

// Shows DAFS-B.3-01, DAFS-B.5-02, DAFS-3.2.1-02 for writes.
// Shows DAFS-2.3.3-04, FAST03-3.1-09 for RDMA writes, DDP-3-01, DDP-3-04.
TEST_P(Faults, InvalidWritesEndTheConnectionAndPlaceNothing) {
  struct Wrong {
    const char* what;
    Access access;
    uint32_t context_change;
    int64_t offset;
    size_t size;
  };
  const Wrong wrongs[] = {
      {"unknown context", Access::kRemoteWrite, 0x5a5a5a00, 0, 64},
      {"read only", Access::kRemoteRead, 0, 0, 64},
      {"local only", Access::kLocal, 0, 0, 64},
      {"past the end", Access::kRemoteWrite, 0, 4096 - 63, 64},
      {"far past the end", Access::kRemoteWrite, 0, int64_t{1} << 40, 64},
      {"before the start", Access::kRemoteWrite, 0, -1, 64},
      {"longer than the region", Access::kRemoteWrite, 0, 0, 200000},
  };
  for (const Wrong& wrong : wrongs) {
    SCOPED_TRACE(wrong.what);
    Open();
    Memory source = NewMemory(*pair_->client.domain, 200000, Access::kLocal, 1);
    Memory target = NewMemory(*pair_->server.domain, 4096, wrong.access);
    RemoteBuffer to = target.Remote();
    to.context ^= wrong.context_change;
    to.target_address += static_cast<uint64_t>(wrong.offset);
    const Segment data = source.At(0, wrong.size);
    ASSERT_TRUE(client().PostRdmaWrite(1, {&data, 1}, to, false).ok());
    ExpectBothEnd();
    // A long write may have placed its first FPDUs, but only inside the region.
    if (wrong.size <= 4096) {
      EXPECT_EQ(target.bytes, std::vector<std::byte>(4096));
    }
  }
}

// Shows DAFS-B.3-01, DAFS-B.5-02, DAFS-2.3.3-04, DAFS-3.2.1-02 for reads.
TEST_P(Faults, InvalidReadsFailAndEndTheConnection) {
  struct Wrong {
    const char* what;
    Access access;
    uint32_t context_change;
    int64_t offset;
  };
  const Wrong wrongs[] = {
      {"unknown context", Access::kRemoteRead, 0x5a5a5a00, 0},
      {"write only", Access::kRemoteWrite, 0, 0},
      {"past the end", Access::kRemoteRead, 0, 4096 - 63},
      {"before the start", Access::kRemoteRead, 0, -1},
  };
  for (const Wrong& wrong : wrongs) {
    SCOPED_TRACE(wrong.what);
    const bool is_readable = wrong.access == Access::kRemoteRead;
    if (!is_readable && !GetParam().checks_remote_reads) continue;
    Open();
    Memory source = NewMemory(*pair_->server.domain, 4096, wrong.access, 1);
    Memory sink = NewMemory(*pair_->client.domain, 64, Access::kLocal);
    RemoteBuffer from = source.Remote();
    from.context ^= wrong.context_change;
    from.target_address += static_cast<uint64_t>(wrong.offset);
    const Segment into = sink.All();
    ASSERT_TRUE(client().PostRdmaRead(1, {&into, 1}, from).ok());
    ExpectBothEnd();
    const auto read = pair_->client.Take(Event::kRdmaRead);
    ASSERT_TRUE(read.has_value());
    EXPECT_FALSE(read->status.ok());
    EXPECT_EQ(sink.bytes, std::vector<std::byte>(64));
  }
}

// Shows DAFS-B.5-03, DAFS-2.3.3-13, DAFS-E.1-02: a domain belongs to one adapter, and another
// domain needs a registration of its own.
TEST_P(Faults, RegionOfAnotherDomainIsNotAccessible) {
  Prepare();
  Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  ASSERT_TRUE(server().PostReceive(1, in.All()).ok());
  Finish();
  auto other = server_provider().Resolve(GetParam().address(), "", absl::Seconds(5));
  auto elsewhere = *(*other)->NewDomain();
  // Many, so that a slot number alone would match one of them here too.
  std::vector<Memory> strange;
  for (int i = 0; i < 8; ++i) strange.push_back(NewMemory(*elsewhere, 4096, Access::kRemoteWrite));
  Memory own = NewMemory(*pair_->server.domain, 4096, Access::kRemoteWrite);
  Memory source = NewMemory(*pair_->client.domain, 64, Access::kLocal, 1);
  const Segment data = source.All();
  const Segment foreign = strange[0].At(0, 64);
  EXPECT_TRUE(absl::IsInvalidArgument(client().PostSend(1, {&foreign, 1}, {})));
  auto again = pair_->client.domain->Register(strange[0].bytes, Access::kLocal);
  ASSERT_TRUE(again.ok()) << again.status();
  Segment registered = foreign;
  registered.region = again->get();
  ASSERT_TRUE(client().PostSend(1, {&registered, 1}, {}).ok());
  ASSERT_TRUE(pair_->Await(pair_->server, Event::kReceive)->status.ok());
  ASSERT_TRUE(client().PostRdmaWrite(1, {&data, 1}, strange[0].Remote(), false).ok());
  ExpectBothEnd();
  EXPECT_EQ(strange[0].bytes, std::vector<std::byte>(4096));
}

// Shows DAFS-2.3.3-04 for sends.
TEST_P(Faults, MessageLongerThanItsReceiveEndsTheConnection) {
  Prepare();
  Memory in = NewMemory(*pair_->server.domain, 100, Access::kLocal);
  Memory beside = NewMemory(*pair_->server.domain, 100, Access::kLocal);
  ASSERT_TRUE(server().PostReceive(1, in.At(0, 50)).ok());
  ASSERT_TRUE(server().PostReceive(2, beside.All()).ok());
  Finish();
  Memory out = NewMemory(*pair_->client.domain, 51, Access::kLocal, 1);
  const Segment all = out.All();
  ASSERT_TRUE(client().PostSend(1, {&all, 1}, {}).ok());
  ExpectBothEnd();
  EXPECT_EQ(pair_->server.Count(Event::kReceive), 2u);
  while (const auto receive = pair_->server.Take(Event::kReceive)) {
    EXPECT_FALSE(receive->status.ok());
  }
  EXPECT_EQ(in.bytes[50], std::byte{0});
}

// Shows DAFS-2.3.3-05, DAFS-E.3-03 (over RDMA): what was posted before and after the faulty
// operation ends with an error, on both sides.
TEST_P(Faults, DetectedErrorEndsEveryOutstandingOperation) {
  Prepare();
  Memory client_in = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  Memory server_in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(client().PostReceive(i, client_in.All()).ok());
    ASSERT_TRUE(server().PostReceive(i, server_in.All()).ok());
  }
  Finish();
  Memory source = NewMemory(*pair_->client.domain, 64, Access::kLocal, 1);
  Memory read_only = NewMemory(*pair_->server.domain, 64, Access::kRemoteRead, 2);
  Memory sink = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  const Segment data = source.All();
  const Segment into = sink.All();
  ASSERT_TRUE(client().PostRdmaWrite(10, {&data, 1}, read_only.Remote(), false).ok());
  for (uint64_t i = 20; i < 23; ++i) {
    ASSERT_TRUE(client().PostRdmaRead(i, {&into, 1}, read_only.Remote()).ok());
  }
  ASSERT_NO_FATAL_FAILURE(ExpectBothEnd());
  for (Side* side : {&pair_->client, &pair_->server}) {
    EXPECT_EQ(side->Count(Event::kReceive), 4u);
    while (const auto receive = side->Take(Event::kReceive)) EXPECT_FALSE(receive->status.ok());
  }
  EXPECT_EQ(pair_->client.Count(Event::kRdmaRead), 3u);
  while (const auto read = pair_->client.Take(Event::kRdmaRead)) EXPECT_FALSE(read->status.ok());
  EXPECT_EQ(sink.bytes, std::vector<std::byte>(64));
}

TEST_P(Faults, OutstandingWorkIsFlushedInOrderBeforeTheEnd) {
  EndpointOptions options;
  options.max_rdma_reads = 2;
  // Shows DAFS-B.4-04
  Prepare(options);
  Memory in = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(client().PostReceive(i, in.All()).ok());
  Finish();
  Memory sink = NewMemory(*pair_->client.domain, 4096, Access::kLocal);
  Memory source = NewMemory(*pair_->server.domain, 4096, Access::kRemoteRead, 1);
  const Segment into = sink.All();
  // The server is not polled. An iwarp server then completes none of these reads. A device
  // completes those that it received; the others wait in the client for a Poll.
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(client().PostRdmaRead(100 + i, {&into, 1}, source.Remote()).ok());
  }
  client().Abort(absl::CancelledError("test"));
  while (pair_->client.Poll()) {
  }
  std::vector<uint64_t> reads;
  std::vector<uint64_t> receives;
  size_t good_reads = 0;
  for (const Completion& one : pair_->client.seen) {
    if (one.event == Event::kReceive) receives.push_back(one.cookie);
    if (one.event == Event::kRdmaRead) reads.push_back(one.cookie);
    if (!one.status.ok()) continue;
    // Shows DAFS-B.4-06
    ASSERT_EQ(one.event, Event::kRdmaRead);
    EXPECT_EQ(++good_reads, reads.size()) << "a read succeeded after one had failed";
  }
  EXPECT_EQ(reads, (std::vector<uint64_t>{100, 101, 102, 103, 104, 105, 106, 107}));
  EXPECT_EQ(receives, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_LE(good_reads, GetParam().server_is_device ? options.max_rdma_reads : 0u);
  ExpectBothEnd();
  if (!GetParam().server_is_device) {
    EXPECT_EQ(sink.bytes, std::vector<std::byte>(4096));
  }
}

// Shows DAFS-B.4-05
TEST_P(Faults, AbortOfThePeerFlushesOurWorkToo) {
  Prepare();
  Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(server().PostReceive(i, in.All()).ok());
  Finish();
  pair_->client.endpoint.reset();
  ASSERT_TRUE(pair_->Until([&] { return pair_->server.Count(Event::kDisconnected) > 0; }));
  EXPECT_EQ(pair_->server.Count(Event::kReceive), 4u);
  EXPECT_EQ(pair_->server.seen.back().event, Event::kDisconnected);
}

TEST_P(Faults, DelayedSendsAreFlushedByAnAbortAndSentByAnOrderlyClose) {
  Endpoint::SendOptions more;
  more.more = true;
  for (const bool abort : {true, false}) {
    SCOPED_TRACE(abort ? "abort" : "orderly");
    Prepare();
    Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
    for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(server().PostReceive(i, in.All()).ok());
    Finish();
    Memory out = NewMemory(*pair_->client.domain, 64, Access::kLocal, -5);
    Memory target = NewMemory(*pair_->server.domain, 64, Access::kRemoteWrite);
    const Segment all = out.All();
    ASSERT_TRUE(client().PostSend(10, {&all, 1}, more).ok());
    ASSERT_TRUE(client().PostSend(11, {&all, 1}, more).ok());
    ASSERT_TRUE(client().PostRdmaWrite(12, {&all, 1}, target.Remote(), false).ok());
    if (abort) {
      client().Abort(absl::CancelledError("test"));
    } else {
      client().Disconnect();
    }
    ASSERT_NO_FATAL_FAILURE(ExpectBothEnd());
    for (uint64_t cookie = 10; cookie < 12; ++cookie) {
      const auto sent = pair_->client.Take(Event::kSend);
      ASSERT_TRUE(sent.has_value());
      EXPECT_EQ(sent->cookie, cookie);
      EXPECT_EQ(sent->status.ok(), !abort) << sent->status;
      EXPECT_EQ(pair_->server.Take(Event::kReceive)->status.ok(), !abort);
    }
    EXPECT_EQ(pair_->client.Take(Event::kRdmaWrite).has_value(), abort);
    EXPECT_EQ(target.bytes == out.bytes, !abort);
    for (Side* side : {&pair_->client, &pair_->server}) side->endpoint.reset();
    for (Memory* memory : {&in, &out, &target}) memory->region.reset();
    pair_.reset();
  }
}

// Shows DAFS-E.5.4-01.
TEST_P(Faults, OrderlyCloseSendsWhatWasPosted) {
  Prepare();
  Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  ASSERT_TRUE(server().PostReceive(1, in.All()).ok());
  ASSERT_TRUE(server().PostReceive(2, in.All()).ok());
  Finish();
  Memory out = NewMemory(*pair_->client.domain, 8 << 20, Access::kLocal, -5);
  Memory target = NewMemory(*pair_->server.domain, 8 << 20, Access::kRemoteBoth);
  Memory sink = NewMemory(*pair_->client.domain, 3 << 20, Access::kLocal);
  const Segment all = out.All();
  const Segment small = out.At(5, 60);
  const Segment into = sink.All();
  ASSERT_TRUE(client().PostRdmaWrite(1, {&all, 1}, target.Remote(), true).ok());
  ASSERT_TRUE(client().PostRdmaRead(2, {&into, 1}, target.Remote()).ok());
  ASSERT_TRUE(client().PostSend(3, {&small, 1}, {}).ok());
  client().Disconnect();
  EXPECT_TRUE(absl::IsUnavailable(client().PostSend(4, {&small, 1}, {})));
  ASSERT_TRUE(pair_->Until([&] {
    return pair_->client.Count(Event::kDisconnected) + pair_->server.Count(Event::kDisconnected) ==
           2;
  }));
  EXPECT_TRUE(pair_->client.Take(Event::kRdmaWrite)->status.ok());
  EXPECT_TRUE(pair_->client.Take(Event::kRdmaRead)->status.ok());
  EXPECT_TRUE(pair_->client.Take(Event::kSend)->status.ok());
  EXPECT_TRUE(pair_->client.Take(Event::kDisconnected)->status.ok());
  const auto received = pair_->server.Take(Event::kReceive);
  EXPECT_TRUE(received->status.ok()) << received->status;
  EXPECT_EQ(received->cookie, 1u);
  EXPECT_FALSE(pair_->server.Take(Event::kReceive)->status.ok());
  const auto end = pair_->server.Take(Event::kDisconnected);
  EXPECT_TRUE(end->status.ok()) << end->status;
  EXPECT_TRUE(target.bytes == out.bytes);
  const size_t same =
      static_cast<size_t>(std::ranges::mismatch(sink.bytes, out.bytes).in1 - sink.bytes.begin());
  EXPECT_EQ(same, sink.bytes.size());
}

// In each state, by each side, in each way: nothing hangs, and the other side is notified.
// Shows DAFS-2.3.3-16 (either side terminates).
TEST_P(Faults, CloseInAnyStateEndsBothSides) {
  enum class How { kDestroy, kAbort, kDisconnect };
  // Polls before the close: from before the handshake until deep in a transfer.
  for (const int turns : {0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144}) {
    for (const bool by_client : {false, true}) {
      for (const How how : {How::kDestroy, How::kAbort, How::kDisconnect}) {
        SCOPED_TRACE(::testing::Message()
                     << turns << " turns, " << (by_client ? "client" : "server") << ", way "
                     << static_cast<int>(how));
        Prepare();
        Memory client_memory = NewMemory(*pair_->client.domain, 1 << 20, Access::kRemoteBoth);
        Memory server_memory = NewMemory(*pair_->server.domain, 1 << 20, Access::kRemoteBoth);
        Memory in = NewMemory(*pair_->client.domain, 64, Access::kLocal);
        ASSERT_TRUE(client().PostReceive(1, in.All()).ok());
        if (turns > 0) {
          ASSERT_TRUE(server().Accept({}).ok());
        }
        const Segment up = client_memory.All();
        const Segment down = server_memory.All();
        for (int i = 1; i < turns; ++i) {
          pair_->client.Poll();
          pair_->server.Poll();
          if (pair_->client.Take(Event::kConnected).has_value()) {
            EXPECT_TRUE(client().PostRdmaWrite(1, {&up, 1}, server_memory.Remote(), true).ok());
            EXPECT_TRUE(client().PostRdmaRead(2, {&up, 1}, server_memory.Remote()).ok());
          }
          if (pair_->server.Take(Event::kConnected).has_value()) {
            EXPECT_TRUE(server().PostRdmaWrite(3, {&down, 1}, client_memory.Remote(), true).ok());
          }
        }
        Side& closing = by_client ? pair_->client : pair_->server;
        Side& other = by_client ? pair_->server : pair_->client;
        const bool other_started = turns > 0 || !by_client;
        switch (how) {
          case How::kDestroy:
            closing.endpoint.reset();
            break;
          case How::kAbort:
            closing.endpoint->Abort(absl::CancelledError("test"));
            break;
          case How::kDisconnect:
            closing.endpoint->Disconnect();
            break;
        }
        ASSERT_TRUE(pair_->Until([&] {
          return (!other_started || other.Count(Event::kDisconnected) > 0) &&
                 (closing.endpoint == nullptr || closing.Count(Event::kDisconnected) > 0);
        }));
        for (Side* side : {&closing, &other}) {
          if (side->Count(Event::kDisconnected) == 0) continue;
          EXPECT_EQ(side->seen.back().event, Event::kDisconnected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dafs::dat::testing
