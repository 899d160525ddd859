// Requests of many programs at once: they are read in one turn, and leave in one piece.
#include <set>
#include <string>

#include "tests/fuse/holding_fixture.h"

namespace dafs::fuse {
namespace {

class GatheringTest : public HoldingWorkerTest {
 protected:
  // Has `count` look-ups wait for the worker when it looks; returns their numbers.
  std::set<uint64_t> SendAtOnce(int count) {
    absl::MutexLock lock(&holding_->stopped);
    std::set<uint64_t> sent;
    for (int i = 0; i < count; ++i) {
      sent.insert(kernel_.Send(FUSE_LOOKUP, kRootNode, Name("missing" + std::to_string(i))));
    }
    return sent;
  }
  bool AwaitSent(uint64_t count) {
    for (int i = 0; i < 2000 && holding_->sent < count; ++i) absl::SleepFor(absl::Milliseconds(10));
    return holding_->sent >= count;
  }
};

TEST_F(GatheringTest, WhatManyAskForAtOnceLeavesInOnePiece) {
  const uint64_t sent = holding_->sent;
  const uint64_t pieces = holding_->pieces;
  holding_->hold = true;
  std::set<uint64_t> calls = SendAtOnce(13);
  ASSERT_TRUE(AwaitSent(sent + 26));  // LOOKUP and GETATTR of each
  // The first three one by one, since few calls were in hand then; the others together.
  EXPECT_EQ(holding_->pieces - pieces, 4u);
  holding_->hold = false;
  while (!calls.empty()) {
    const FakeKernel::Answer answer = kernel_.Receive();
    ASSERT_NE(answer.unique, 0u) << calls.size() << " have no answer";
    EXPECT_EQ(calls.erase(answer.unique), 1u);
    EXPECT_EQ(answer.error, ENOENT);
  }
}

// What one program does one after the other waits for nothing.
TEST_F(GatheringTest, OneCallAtATimeLeavesAtOnce) {
  const uint64_t sent = holding_->sent;
  const uint64_t pieces = holding_->pieces;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(kernel_.Call(FUSE_LOOKUP, kRootNode, Name("missing")).error, ENOENT);
  }
  EXPECT_EQ(holding_->sent - sent, 10u);
  EXPECT_EQ(holding_->pieces - pieces, 5u);
}

}  // namespace
}  // namespace dafs::fuse
