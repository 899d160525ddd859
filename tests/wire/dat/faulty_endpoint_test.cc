#include "tests/wire/dat/faulty_endpoint.h"

#include <gtest/gtest.h>

#include "tests/wire/dat/dat_pair.h"
#include "wire/dat/iwarp/iwarp.h"

namespace dafs::dat::testing {
namespace {

struct Run {
  std::unique_ptr<Provider> provider = NewIwarpProvider();
  std::unique_ptr<Pair> pair;
  FaultyEndpoint* faulty = nullptr;  // the client's endpoint
  Memory out, in, back;
};

// Connects a client that fails as planned. The server has posted receives.
std::unique_ptr<Run> Start(const FaultPlan& plan) {
  auto run = std::make_unique<Run>();
  run->pair = *MakePair(*run->provider, *run->provider, LoopbackAddress(), {});
  auto wrapped = std::make_unique<FaultyEndpoint>(std::move(run->pair->client.endpoint), plan);
  run->faulty = wrapped.get();
  run->pair->client.endpoint = std::move(wrapped);
  run->out = NewMemory(*run->pair->client.domain, 64, Access::kLocal, 3);
  run->back = NewMemory(*run->pair->client.domain, 64, Access::kLocal);
  run->in = NewMemory(*run->pair->server.domain, 64, Access::kLocal);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(run->pair->server.endpoint->PostReceive(i, run->in.All()).ok());
  }
  EXPECT_TRUE(FinishPair(*run->pair).ok());
  return run;
}

// Sends five messages. Waits for the end of both sides, or for all five. Returns how many sends of
// the client were reported, with success or failure.
size_t SendFive(Run& run) {
  const Segment all = run.out.All();
  size_t accepted = 0;
  for (uint64_t i = 0; i < 5; ++i) {
    if (run.faulty->PostSend(i, {&all, 1}, {}).ok()) ++accepted;
    run.pair->client.Poll();
  }
  EXPECT_TRUE(run.pair->Until([&] {
    if (run.faulty->fired()) {
      return run.pair->client.Count(Event::kDisconnected) == 1 &&
             run.pair->server.Count(Event::kDisconnected) == 1;
    }
    return run.pair->server.Count(Event::kReceive) == 5 &&
           run.pair->client.Count(Event::kSend) == 5;
  }));
  EXPECT_EQ(run.pair->client.Count(Event::kSend), accepted);
  return accepted;
}

size_t GoodReceives(const Run& run) {
  size_t good = 0;
  for (const Completion& one : run.pair->server.seen) {
    good += one.event == Event::kReceive && one.status.ok() ? 1 : 0;
  }
  return good;
}

TEST(FaultyEndpoint, SweepEndsWithARunWithoutAFault) {
  for (const FaultKind kind : {FaultKind::kPostFails, FaultKind::kCutBefore, FaultKind::kCutAfter,
                               FaultKind::kLoseCompletion}) {
    bool untouched = false;
    for (uint64_t n = 1; n < 20 && !untouched; ++n) {
      auto run = Start({.kind = kind, .operations = kFaultSend, .countdown = n});
      SendFive(*run);
      untouched = !run->faulty->fired();
      EXPECT_EQ(untouched, n > 5) << n;
      if (untouched) {
        EXPECT_EQ(GoodReceives(*run), 5u);
      }
    }
    EXPECT_TRUE(untouched);
  }
}

TEST(FaultyEndpoint, FailedPostOrCutBeforeItSendsNothing) {
  for (const FaultKind kind : {FaultKind::kPostFails, FaultKind::kCutBefore}) {
    auto run = Start({.kind = kind, .operations = kFaultSend, .countdown = 1});
    EXPECT_EQ(SendFive(*run), kind == FaultKind::kPostFails ? 0u : 1u);
    EXPECT_EQ(GoodReceives(*run), 0u);
  }
}

TEST(FaultyEndpoint, MessageCutAfterTheSendArrives) {
  for (const FaultKind kind : {FaultKind::kCutAfter, FaultKind::kLoseCompletion}) {
    auto run = Start({.kind = kind, .operations = kFaultSend, .countdown = 1});
    EXPECT_GE(SendFive(*run), 1u);
    if (kind == FaultKind::kCutAfter) {
      EXPECT_EQ(GoodReceives(*run), 1u);
    } else {
      const auto lost = run->pair->client.Take(Event::kSend);
      ASSERT_TRUE(lost.has_value());
      EXPECT_EQ(lost->cookie, 0u);
      EXPECT_FALSE(lost->status.ok());
    }
  }
}

TEST(FaultyEndpoint, CountsOnlyTheOperationsOfThePlan) {
  auto run = Start({.kind = FaultKind::kPostFails, .operations = kFaultRdmaRead, .countdown = 1});
  EXPECT_EQ(SendFive(*run), 5u);
  EXPECT_FALSE(run->faulty->fired());
  const Segment into = run->back.All();
  EXPECT_TRUE(absl::IsUnavailable(run->faulty->PostRdmaRead(1, {&into, 1}, {})));
  EXPECT_TRUE(run->faulty->fired());
}

}  // namespace
}  // namespace dafs::dat::testing
