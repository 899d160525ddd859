// The write-behind table: parts must not overlap, and callers can wait for them.
#include "fuse/files/write_behind_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/loop/loop.h"
#include "runtime/loop/loop_wait.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {
namespace {

// Waits until the present parts of `nodeid` have ended, then adds to `*drained`.
Task<void> AddWhenDrained(WriteBehindTable& table, Loop& loop, uint64_t nodeid, int* drained,
                          int add = 1) {
  LoopWait wait(loop);
  EXPECT_TRUE(table.WakeWhenDrained(nodeid, wait.waker()));
  absl::Status status = co_await wait.Wait();
  EXPECT_TRUE(status.ok());
  *drained += add;
}

class WriteBehindTableWaitTest : public testing::Test {
 protected:
  void StartWait(uint64_t nodeid, int add = 1) {
    Start(AddWhenDrained(table_, *loop_, nodeid, &drained_, add));
  }
  bool IsDrained(uint64_t nodeid) {
    LoopWait wait(*loop_);
    return !table_.WakeWhenDrained(nodeid, wait.waker());
  }
  int Drained() {
    loop_->RunOnce(absl::ZeroDuration());
    return drained_;
  }

  const std::unique_ptr<Loop> loop_ = *Loop::Create();
  WriteBehindTable table_;
  int drained_ = 0;
};

TEST(WriteBehindTable, PartsOfOneFileCannotOverlap) {
  WriteBehindTable table;
  EXPECT_TRUE(table.idle());
  EXPECT_TRUE(table.Begin(7, 100, 50));
  EXPECT_FALSE(table.idle());
  EXPECT_FALSE(table.Begin(7, 100, 50));
  EXPECT_FALSE(table.Begin(7, 149, 1));
  EXPECT_FALSE(table.Begin(7, 0, 101));
  EXPECT_FALSE(table.Begin(7, 0, 1000));
  EXPECT_TRUE(table.Begin(7, 150, 1));
  EXPECT_TRUE(table.Begin(7, 0, 100));
  EXPECT_TRUE(table.Begin(8, 100, 50));
  EXPECT_TRUE(table.Holds(7));
  table.End(7, 100);
  EXPECT_TRUE(table.Begin(7, 110, 10));
  for (uint64_t offset : {uint64_t{150}, uint64_t{0}, uint64_t{110}}) table.End(7, offset);
  EXPECT_FALSE(table.Holds(7));
  EXPECT_TRUE(table.Holds(8));
  table.End(8, 100);
  EXPECT_TRUE(table.idle());
}

TEST(WriteBehindTable, APartGrowsOnlyIntoFreeBytes) {
  WriteBehindTable table;
  ASSERT_TRUE(table.Begin(7, 0, 10));
  ASSERT_TRUE(table.Begin(7, 30, 10));
  EXPECT_TRUE(table.Lengthen(7, 0, 20));
  EXPECT_FALSE(table.Lengthen(7, 0, 1));
  EXPECT_FALSE(table.Begin(7, 29, 1));
  EXPECT_TRUE(table.Lengthen(7, 30, 1));
  table.End(7, 0);
  EXPECT_TRUE(table.Begin(7, 0, 30));
}

TEST_F(WriteBehindTableWaitTest, HoldLetsOutstandingPartsEndAndNoneBegin) {
  ASSERT_TRUE(table_.Begin(7, 0, 10));
  const uint64_t one = table_.Hold(7), two = table_.Hold(7);
  EXPECT_FALSE(table_.Begin(7, 1'000'000, 1));
  EXPECT_FALSE(table_.Lengthen(7, 0, 1));
  EXPECT_TRUE(table_.Begin(8, 0, 1));
  StartWait(7);
  table_.End(7, 0);  // ends the part, not the holds
  table_.End(8, 0);
  table_.Release(two);
  EXPECT_EQ(Drained(), 0);
  EXPECT_TRUE(table_.Holds(7));
  table_.Release(one);
  EXPECT_EQ(Drained(), 1);
  EXPECT_TRUE(table_.idle());
}

TEST_F(WriteBehindTableWaitTest, AWaiterWaitsForPresentPartsAndNotForLaterOnes) {
  EXPECT_TRUE(IsDrained(7));
  ASSERT_TRUE(table_.Begin(7, 0, 1));
  ASSERT_TRUE(table_.Begin(7, 1, 1));
  ASSERT_TRUE(table_.Begin(8, 0, 1));
  StartWait(7);
  StartWait(WriteBehindTable::kAnyNode, 100);
  EXPECT_TRUE(IsDrained(9));
  ASSERT_TRUE(table_.Begin(7, 2, 1));
  table_.End(7, 1);
  EXPECT_EQ(Drained(), 0);
  table_.End(7, 0);
  EXPECT_EQ(Drained(), 1);  // the part at 2 began later
  table_.End(8, 0);
  EXPECT_EQ(Drained(), 101);
  EXPECT_TRUE(IsDrained(8));
  StartWait(7);
  table_.End(7, 2);
  EXPECT_EQ(Drained(), 102);
}

Task<void> BeginWhenDrained(WriteBehindTable& table, Loop& loop, bool* began) {
  LoopWait wait(loop);
  EXPECT_TRUE(table.WakeWhenDrained(7, wait.waker()));
  absl::Status ignored = co_await wait.Wait();
  *began = table.Begin(7, 0, 1);
}

TEST_F(WriteBehindTableWaitTest, AWokenWaiterMayUseTheTable) {
  ASSERT_TRUE(table_.Begin(7, 0, 1));
  bool began = false;
  Start(BeginWhenDrained(table_, *loop_, &began));
  table_.End(7, 0);
  Drained();
  EXPECT_TRUE(began);
  EXPECT_TRUE(table_.Holds(7));
}

TEST(WriteBehindTable, EveryWaiterAmongManyThreadsIsWoken) {
  WriteBehindTable table;
  constexpr int kThreads = 4;
  constexpr int kTurns = 2000;
  std::vector<std::unique_ptr<Loop>> loops;  // until no thread wakes another any more
  for (int thread = 0; thread < kThreads; ++thread) loops.push_back(*Loop::Create());
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      int drained = 0;
      for (int turn = 0; turn < kTurns; ++turn) {
        EXPECT_TRUE(table.Begin(7, thread, 1));
        Start(AddWhenDrained(table, *loops[thread], turn % 2 == 0 ? 7 : WriteBehindTable::kAnyNode,
                             &drained));
        table.End(7, thread);
        while (drained <= turn) loops[thread]->RunOnce(absl::Seconds(1));
      }
      woken += drained;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(table.idle());
  EXPECT_EQ(woken, kThreads * kTurns);
}

}  // namespace
}  // namespace dafs::fuse
