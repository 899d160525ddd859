// The write-behind table: parts must not overlap, and callers can wait for them.
#include "fuse/files/behind_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace dafs::fuse {
namespace {

TEST(BehindTable, PartsOfOneFileCannotOverlap) {
  BehindTable table;
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

TEST(BehindTable, APartGrowsOnlyIntoFreeBytes) {
  BehindTable table;
  ASSERT_TRUE(table.Begin(7, 0, 10));
  ASSERT_TRUE(table.Begin(7, 30, 10));
  EXPECT_TRUE(table.Lengthen(7, 0, 20));
  EXPECT_FALSE(table.Lengthen(7, 0, 1));
  EXPECT_FALSE(table.Begin(7, 29, 1));
  EXPECT_TRUE(table.Lengthen(7, 30, 1));
  table.End(7, 0);
  EXPECT_TRUE(table.Begin(7, 0, 30));
}

TEST(BehindTable, HoldLetsOutstandingPartsEndAndNoneBegin) {
  BehindTable table;
  ASSERT_TRUE(table.Begin(7, 0, 10));
  const uint64_t one = table.Hold(7), two = table.Hold(7);
  EXPECT_FALSE(table.Begin(7, 1'000'000, 1));
  EXPECT_FALSE(table.Lengthen(7, 0, 1));
  EXPECT_TRUE(table.Begin(8, 0, 1));
  int settled = 0;
  EXPECT_TRUE(table.WhenSettled(7, [&] { ++settled; }));
  table.End(7, 0);  // ends the part, not the holds
  table.End(8, 0);
  table.Release(two);
  EXPECT_EQ(settled, 0);
  EXPECT_TRUE(table.Holds(7));
  table.Release(one);
  EXPECT_EQ(settled, 1);
  EXPECT_TRUE(table.idle());
}

TEST(BehindTable, AWaiterWaitsForPresentPartsAndNotForLaterOnes) {
  BehindTable table;
  int settled = 0;
  const auto count = [&] { ++settled; };
  EXPECT_FALSE(table.WhenSettled(7, count));
  ASSERT_TRUE(table.Begin(7, 0, 1));
  ASSERT_TRUE(table.Begin(7, 1, 1));
  ASSERT_TRUE(table.Begin(8, 0, 1));
  EXPECT_TRUE(table.WhenSettled(7, count));
  EXPECT_TRUE(table.WhenSettled(BehindTable::kAnyNode, [&] { settled += 100; }));
  EXPECT_FALSE(table.WhenSettled(9, count));
  ASSERT_TRUE(table.Begin(7, 2, 1));
  table.End(7, 1);
  EXPECT_EQ(settled, 0);
  table.End(7, 0);
  EXPECT_EQ(settled, 1);  // the part at 2 began later
  table.End(8, 0);
  EXPECT_EQ(settled, 101);
  EXPECT_FALSE(table.WhenSettled(8, count));
  EXPECT_TRUE(table.WhenSettled(7, count));
  table.End(7, 2);
  EXPECT_EQ(settled, 102);
}

TEST(BehindTable, ACallbackMayUseTheTable) {
  BehindTable table;
  ASSERT_TRUE(table.Begin(7, 0, 1));
  bool began = false;
  ASSERT_TRUE(table.WhenSettled(7, [&] { began = table.Begin(7, 0, 1); }));
  table.End(7, 0);
  EXPECT_TRUE(began);
  EXPECT_TRUE(table.Holds(7));
}

TEST(BehindTable, EveryWaiterAmongManyThreadsIsWoken) {
  BehindTable table;
  constexpr int kThreads = 4;
  constexpr int kTurns = 2000;
  std::atomic<int> waited{0};
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int turn = 0; turn < kTurns; ++turn) {
        EXPECT_TRUE(table.Begin(7, thread, 1));
        if (table.WhenSettled(turn % 2 == 0 ? 7 : BehindTable::kAnyNode, [&] { ++woken; })) {
          ++waited;
        }
        table.End(7, thread);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(table.idle());
  EXPECT_EQ(waited, kThreads * kTurns);
  EXPECT_EQ(woken, waited);
}

}  // namespace
}  // namespace dafs::fuse
