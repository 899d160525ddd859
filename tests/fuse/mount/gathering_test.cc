// Concurrent requests of many programs: the worker reads them in one turn and sends them together.
#include <set>
#include <string>

#include "absl/time/clock.h"
#include "tests/fuse/holding_fixture.h"

namespace dafs::fuse {
namespace {

class GatheringTest : public HoldingWorkerTest {
 protected:
  // Sends `count` lookups while the worker is blocked. Returns their numbers.
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

TEST_F(GatheringTest, ConcurrentRequestsAreSentTogether) {
  const uint64_t sent = holding_->sent;
  const uint64_t pieces = holding_->pieces;
  holding_->hold = true;
  std::set<uint64_t> calls = SendAtOnce(13);
  ASSERT_TRUE(AwaitSent(sent + 13));
  // The first three leave alone, because few calls are outstanding. The others leave together.
  EXPECT_EQ(holding_->pieces - pieces, 4u);
  holding_->hold = false;
  while (!calls.empty()) {
    const FakeKernel::Answer answer = kernel_.Receive();
    ASSERT_NE(answer.unique, 0u) << calls.size() << " have no reply";
    EXPECT_EQ(calls.erase(answer.unique), 1u);
    EXPECT_EQ(answer.error, ENOENT);
  }
}

// Sequential requests of one program are not delayed.
TEST_F(GatheringTest, ASingleRequestIsSentAtOnce) {
  const uint64_t sent = holding_->sent;
  const uint64_t pieces = holding_->pieces;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(kernel_.Call(FUSE_LOOKUP, kRootNode, Name("missing")).error, ENOENT);
  }
  EXPECT_EQ(holding_->sent - sent, 5u);
  EXPECT_EQ(holding_->pieces - pieces, 5u);
}

}  // namespace
}  // namespace dafs::fuse
