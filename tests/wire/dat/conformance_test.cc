// One suite over every provider: what wire/dat/dat.h and appendix B promise of a working
// connection. Failures and ends of connections are in conformance_faults_test.cc.
#include <gtest/gtest.h>
#include <poll.h>

#include <deque>
#include <random>
#include <thread>

#include "tests/wire/dat/conformance_fixture.h"

namespace dafs::dat::testing {
namespace {

class Conformance : public ConformanceFixture {};
INSTANTIATE_TEST_SUITE_P(Providers, Conformance, ::testing::ValuesIn(ConformanceCases()), CaseName);

// Shows DAFS-B.4-01, DAFS-2.3.3-16 (establishment), DAFS-E.4-01, DAFS-E.3-01 (over RDMA).
TEST_P(Conformance, ConnectsAndCarriesPrivateDataBothWays) {
  const std::string request = "0123456789abcdef and more";
  const std::string reply = "welcome";
  Prepare({}, request);
  EXPECT_EQ(PrefixOf(server().peer_private_data(), request.size()), request);
  Finish(reply);
  EXPECT_EQ(PrefixOf(client().peer_private_data(), reply.size()), reply);
  EXPECT_FALSE(client().description().empty());
}

// Shows DAFS-B.4-02
TEST_P(Conformance, EndpointTakesPartInOneConnection) {
  Prepare();
  EXPECT_TRUE(absl::IsFailedPrecondition(client().Connect({})));
  EXPECT_TRUE(absl::IsFailedPrecondition(client().Accept({})));
  EXPECT_TRUE(absl::IsFailedPrecondition(server().Connect({})));
  Finish();
  EXPECT_TRUE(absl::IsFailedPrecondition(client().Connect({})));
  EXPECT_TRUE(absl::IsFailedPrecondition(server().Accept({})));
  EXPECT_EQ(pair_->client.Count(Event::kDisconnected), 0u);
}

// Shows DAFS-B.4-03.
TEST_P(Conformance, OneListenerServesManyConnectionsAtOnce) {
  constexpr int kConnections = 200;
  auto listener = server_provider().Listen(GetParam().address());
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<Memory> memories;
  for (int i = 0; i < kConnections; ++i) {
    auto pair = MakePair(client_provider(), server_provider(), GetParam().address(), {},
                         std::to_string(i), listener->get());
    ASSERT_TRUE(pair.ok()) << pair.status();
    memories.push_back(NewMemory(*(*pair)->server.domain, 64, Access::kLocal));
    ASSERT_TRUE((*pair)->server.endpoint->PostReceive(1, memories.back().All()).ok());
    ASSERT_TRUE(FinishPair(**pair).ok());
    pairs.push_back(*std::move(pair));
  }
  for (int i = 0; i < kConnections; ++i) {
    Memory message = NewMemory(*pairs[static_cast<size_t>(i)]->client.domain, 8, Access::kLocal, i);
    const Segment all = message.All();
    ASSERT_TRUE(pairs[static_cast<size_t>(i)]->client.endpoint->PostSend(1, {&all, 1}, {}).ok());
    auto& pair = *pairs[static_cast<size_t>(i)];
    ASSERT_TRUE(pair.Await(pair.client, Event::kSend).has_value());
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto received = pairs[i]->Await(pairs[i]->server, Event::kReceive);
    ASSERT_TRUE(received.has_value() && received->status.ok());
    EXPECT_EQ(memories[i].bytes[0], static_cast<std::byte>(i));
  }
  memories.clear();
}

// Shows DAFS-2.3.3-12: two peers, each with several connections, of which the messages do not mix.
TEST_P(Conformance, SeveralConnectionsWithSeveralPeersExistAtOnce) {
  std::vector<std::unique_ptr<Listener>> peers;
  for (int i = 0; i < 2; ++i) {
    auto listener = server_provider().Listen(GetParam().address());
    ASSERT_TRUE(listener.ok()) << listener.status();
    peers.push_back(*std::move(listener));
  }
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<Memory> in, out;
  for (int i = 0; i < 6; ++i) {
    auto pair = MakePair(client_provider(), server_provider(), GetParam().address(), {}, "",
                         peers[static_cast<size_t>(i) % 2].get());
    ASSERT_TRUE(pair.ok()) << pair.status();
    in.push_back(NewMemory(*(*pair)->server.domain, 64, Access::kLocal));
    out.push_back(NewMemory(*(*pair)->client.domain, 64, Access::kLocal, i + 1));
    ASSERT_TRUE((*pair)->server.endpoint->PostReceive(1, in.back().All()).ok());
    ASSERT_TRUE(FinishPair(**pair).ok());
    pairs.push_back(*std::move(pair));
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Segment all = out[i].All();
    ASSERT_TRUE(pairs[i]->client.endpoint->PostSend(1, {&all, 1}, {}).ok());
  }
  for (size_t i = pairs.size(); i-- > 0;) {
    const auto received = pairs[i]->Await(pairs[i]->server, Event::kReceive);
    ASSERT_TRUE(received.has_value() && received->status.ok());
    EXPECT_EQ(in[i].bytes, out[i].bytes);
  }
  in.clear();
  out.clear();
}

// Shows DAFS-2.3.3-06, DAFS-2.3.3-09, DAFS-2.3.3-10, DDP-3.1-02, DDP-3.1-04.
TEST_P(Conformance, SendsOfAllSizesArriveInOrder) {
  constexpr size_t kMost = 70000;
  constexpr uint64_t kMessages = 400;
  Open();
  Memory out = NewMemory(*pair_->client.domain, kMost, Access::kLocal, -2);
  std::deque<Memory> in;
  for (uint64_t i = 0; i < 16; ++i) {
    in.push_back(NewMemory(*pair_->server.domain, kMost, Access::kLocal));
    ASSERT_TRUE(server().PostReceive(i, in.back().All()).ok());
  }
  std::mt19937 random(7);
  std::deque<std::pair<size_t, size_t>> sent;  // offset and size
  uint64_t posted = 0;
  uint64_t received = 0;
  uint64_t completed = 0;
  const bool done = pair_->Until([&] {
    while (posted < kMessages && posted - received < 16 && posted - completed < 16) {
      const size_t size = random() % 4 == 0 ? random() % kMost : random() % 300;
      const size_t offset = random() % (kMost - size);
      const Segment part = out.At(offset, size);
      EXPECT_TRUE(client().PostSend(posted++, {&part, 1}, {}).ok());
      sent.emplace_back(offset, size);
    }
    while (const auto one = pair_->client.Take(Event::kSend)) EXPECT_EQ(one->cookie, completed++);
    while (const auto one = pair_->server.Take(Event::kReceive)) {
      EXPECT_TRUE(one->status.ok()) << one->status;
      EXPECT_EQ(one->cookie, received % 16);
      EXPECT_EQ(one->size_bytes, sent.front().second);
      Memory& memory = in[one->cookie];
      EXPECT_EQ(std::memcmp(memory.bytes.data(), &out.bytes[sent.front().first], one->size_bytes),
                0)
          << received;
      sent.pop_front();
      ++received;
      EXPECT_TRUE(server().PostReceive(one->cookie, memory.All()).ok());
    }
    return received == kMessages || HasFailure();
  });
  EXPECT_TRUE(done);
}

TEST_P(Conformance, SendWithMoreIsDelayedUntilTheNextSendFlushOrPoll) {
  Prepare();
  Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(server().PostReceive(i, in.All()).ok());
  Finish();
  Memory out = NewMemory(*pair_->client.domain, 64, Access::kLocal, -4);
  const Segment all = out.All();
  Endpoint::SendOptions more;
  more.more = true;
  ASSERT_TRUE(client().PostSend(0, {&all, 1}, more).ok());
  ASSERT_TRUE(client().PostSend(1, {&all, 1}, {}).ok());
  ASSERT_TRUE(client().PostSend(2, {&all, 1}, more).ok());
  client().Flush();
  ASSERT_TRUE(client().PostSend(3, {&all, 1}, more).ok());
  for (uint64_t i = 0; i < 4; ++i) {
    const auto received = pair_->Await(pair_->server, Event::kReceive);
    ASSERT_TRUE(received.has_value() && received->status.ok());
    EXPECT_EQ(received->cookie, i);
  }
}

TEST_P(Conformance, EmptyMessageIsDelivered) {
  Prepare();
  Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  ASSERT_TRUE(server().PostReceive(5, in.All()).ok());
  Finish();
  ASSERT_TRUE(client().PostSend(6, {}, {}).ok());
  const auto received = pair_->Await(pair_->server, Event::kReceive);
  ASSERT_TRUE(received.has_value());
  EXPECT_TRUE(received->status.ok());
  EXPECT_EQ(received->size_bytes, 0u);
  EXPECT_EQ(received->cookie, 5u);
  EXPECT_EQ(pair_->Await(pair_->client, Event::kSend)->cookie, 6u);
}

TEST_P(Conformance, LongMessageFillsALongReceive) {
  Prepare();
  Memory in = NewMemory(*pair_->server.domain, 3 << 20, Access::kLocal);
  ASSERT_TRUE(server().PostReceive(1, in.All()).ok());
  Finish();
  Memory out = NewMemory(*pair_->client.domain, 3 << 20, Access::kLocal, -3);
  const Segment all = out.All();
  ASSERT_TRUE(client().PostSend(2, {&all, 1}, {}).ok());
  const auto received = pair_->Await(pair_->server, Event::kReceive);
  ASSERT_TRUE(received.has_value() && received->status.ok());
  EXPECT_EQ(received->size_bytes, 3u << 20);
  EXPECT_TRUE(in.bytes == out.bytes);
}

TEST_P(Conformance, UnsignaledSendsReportNothing) {
  Open();
  Memory small = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  const Segment message = small.All();
  for (int round = 0; round < 20; ++round) {
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(server().PostReceive(i, in.All()).ok());
    for (uint64_t i = 0; i < 10; ++i) {
      Endpoint::SendOptions options;
      options.signaled = i == 9;
      ASSERT_TRUE(client().PostSend(i, {&message, 1}, options).ok());
    }
    EXPECT_EQ(pair_->Await(pair_->client, Event::kSend)->cookie, 9u);
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(pair_->Await(pair_->server, Event::kReceive).has_value());
    }
    EXPECT_EQ(pair_->client.Count(Event::kSend), 0u);
  }
}

TEST_P(Conformance, RemoteInvalidationIsReported) {
  if (!GetParam().remote_invalidation) GTEST_SKIP() << "not for plain regions of this provider";
  Prepare();
  Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  ASSERT_TRUE(server().PostReceive(1, in.All()).ok());
  Finish();
  Memory target = NewMemory(*pair_->server.domain, 64, Access::kRemoteBoth);
  Endpoint::SendOptions options;
  options.invalidate_context = target.region->context();
  ASSERT_TRUE(client().PostSend(2, {}, options).ok());
  const auto received = pair_->Await(pair_->server, Event::kReceive);
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->invalidated_context, target.region->context());
}

TEST_P(Conformance, PostsBeyondTheOptionsAreRefusedAndPostNothing) {
  EndpointOptions options;
  options.max_receives = 3;
  options.max_sends = 3;
  Prepare(options);
  Memory in = NewMemory(*pair_->server.domain, 64, Access::kLocal);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(server().PostReceive(i, in.All()).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(server().PostReceive(3, in.All())));
  Finish();
  Memory out = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  const Segment all = out.All();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(client().PostSend(i, {&all, 1}, {}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(client().PostSend(3, {&all, 1}, {})));
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pair_->Await(pair_->client, Event::kSend)->cookie, i);
    EXPECT_EQ(pair_->Await(pair_->server, Event::kReceive)->cookie, i);
  }
  // They were reported, so there is room again.
  EXPECT_TRUE(server().PostReceive(4, in.All()).ok());
  EXPECT_TRUE(client().PostSend(5, {&all, 1}, {}).ok());
  EXPECT_EQ(pair_->Await(pair_->server, Event::kReceive)->cookie, 4u);
}

TEST_P(Conformance, SegmentsOutsideTheirRegionAreRefused) {
  Open();
  Memory memory = NewMemory(*pair_->client.domain, 64, Access::kLocal);
  Segment past = memory.All();
  past.size_bytes += 1;
  EXPECT_TRUE(absl::IsInvalidArgument(client().PostSend(1, {&past, 1}, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(client().PostRdmaWrite(1, {&past, 1}, {}, true)));
  EXPECT_TRUE(absl::IsInvalidArgument(client().PostRdmaRead(1, {&past, 1}, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(client().PostReceive(1, past)));
  Segment before = memory.All();
  before.data -= 1;
  EXPECT_TRUE(absl::IsInvalidArgument(client().PostSend(1, {&before, 1}, {})));
  const std::vector<Segment> many(client().max_segments() + 1, memory.At(0, 1));
  EXPECT_TRUE(absl::IsInvalidArgument(client().PostSend(1, many, {})));
}

// Sleeps on the handle that Arm returns. Returns whether it woke in time.
bool SleepOn(WaitHandle handle) {
  if (handle.fd < 0) return true;
  pollfd ready = {.fd = handle.fd, .events = static_cast<short>(handle.events), .revents = 0};
  return poll(&ready, 1, 60000) == 1;
}

TEST_P(Conformance, EveryEventWakesASleepingThread) {
  auto listener = server_provider().Listen(GetParam().address());
  ASSERT_TRUE(listener.ok());
  constexpr int kRounds = 50;
  std::thread server([&] {
    std::unique_ptr<PendingEndpoint> pending;
    while (pending == nullptr) {
      if (!SleepOn((*listener)->Arm())) return;
      pending = *(*listener)->Next();
    }
    auto domain = *pending->NewDomain();
    Memory memory = NewMemory(*domain, 64, Access::kLocal);
    const Segment all = memory.All();
    auto endpoint = *pending->CreateEndpoint(*domain, {});
    EXPECT_TRUE(endpoint->PostReceive(1, all).ok());
    EXPECT_TRUE(endpoint->Accept({}).ok());
    for (bool up = true; up && SleepOn(endpoint->Arm());) {
      Completion one[1];
      if (endpoint->Poll(one) == 0) continue;
      up = one[0].event != Event::kDisconnected;
      if (one[0].event != Event::kReceive || !one[0].status.ok()) continue;
      EXPECT_TRUE(endpoint->PostReceive(1, all).ok());
      EXPECT_TRUE(endpoint->PostSend(2, {&all, 1}, {}).ok());
    }
  });
  {
    auto pending = *client_provider().Resolve((*listener)->local(), "", absl::Seconds(5));
    auto domain = *pending->NewDomain();
    Memory memory = NewMemory(*domain, 64, Access::kLocal);
    const Segment all = memory.All();
    auto endpoint = *pending->CreateEndpoint(*domain, {});
    EXPECT_TRUE(endpoint->PostReceive(1, all).ok());
    EXPECT_TRUE(endpoint->Connect({}).ok());
    int rounds = 0;
    bool up = true;
    while (up && SleepOn(endpoint->Arm())) {
      Completion one[1];
      if (endpoint->Poll(one) == 0) continue;
      up = one[0].event != Event::kDisconnected;
      const bool answered = one[0].event == Event::kReceive && one[0].status.ok();
      if (one[0].event != Event::kConnected && !answered) continue;
      if (answered && ++rounds == kRounds) {
        endpoint->Disconnect();
        continue;
      }
      if (answered) {
        EXPECT_TRUE(endpoint->PostReceive(1, all).ok());
      }
      EXPECT_TRUE(endpoint->PostSend(2, {&all, 1}, {}).ok());
    }
    EXPECT_EQ(rounds, kRounds);
    EXPECT_FALSE(up);
  }
  server.join();
}

}  // namespace
}  // namespace dafs::dat::testing
