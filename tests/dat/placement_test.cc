// Which CPU a worker's thread is bound to, and when it is free again.
#include "wire/dat/placement.h"

#include <sched.h>

#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace dafs::dat {
namespace {

constexpr uint64_t kProgram = 7;

cpu_set_t Cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  return set;
}

uint32_t LastOf(const cpu_set_t& set) {
  uint32_t last = 0;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) last = cpu;
  }
  return last;
}

class PlacementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = Cpus();
    if (CPU_COUNT(&before_) < 2) GTEST_SKIP() << "one CPU: nothing to place";
    loop_ = *Loop::Create();
    placement_.emplace(*loop_);
  }
  void TearDown() override { sched_setaffinity(0, sizeof(before_), &before_); }

  // Windows of requests that take turns; true if the last one says Follow.
  bool TakeTurns(uint32_t windows = 1) {
    bool follow = false;
    for (uint32_t i = 0; i < windows * Placement::kWindow; ++i) {
      follow = placement_->Note(kProgram, true);
    }
    return follow;
  }
  bool IsFree() const {
    const cpu_set_t now = Cpus();
    return !placement_->bound().has_value() && CPU_EQUAL(&now, &before_);
  }

  cpu_set_t before_;
  std::unique_ptr<Loop> loop_;
  std::optional<Placement> placement_;
};

TEST_F(PlacementTest, FollowsWhoTakesTurns) {
  for (uint32_t i = 1; i < Placement::kWindow; ++i) ASSERT_FALSE(placement_->Note(kProgram, true));
  ASSERT_TRUE(placement_->Note(kProgram, true));
  const uint32_t cpu = LastOf(before_);
  placement_->Follow(cpu);
  const cpu_set_t now = Cpus();
  EXPECT_EQ(CPU_COUNT(&now), 1);
  EXPECT_TRUE(CPU_ISSET(cpu, &now));
  EXPECT_EQ(placement_->bound(), cpu);
}

TEST_F(PlacementTest, IsFreeWhileSeveralAreUnderWay) {
  for (uint32_t i = 0; i < Placement::kWindow; ++i) {
    EXPECT_FALSE(placement_->Note(kProgram, i % 2 == 0));
  }
}

TEST_F(PlacementTest, IsFreeWhileSeveralProgramsAsk) {
  for (uint32_t i = 0; i < Placement::kWindow; ++i) EXPECT_FALSE(placement_->Note(i % 2, true));
}

TEST_F(PlacementTest, LetsAFewOthersPass) {
  for (uint32_t i = 1; i < Placement::kWindow; ++i) {
    placement_->Note(kProgram, i > Placement::kOthers);
  }
  EXPECT_TRUE(placement_->Note(kProgram, true));
}

TEST_F(PlacementTest, IsFreedInTheMiddleOfAWindow) {
  ASSERT_TRUE(TakeTurns());
  placement_->Follow(LastOf(before_));
  for (uint32_t i = 0; i <= Placement::kOthers; ++i) {
    EXPECT_FALSE(IsFree());
    placement_->Note(kProgram, false);
  }
  EXPECT_TRUE(IsFree());
}

TEST_F(PlacementTest, MuchToMoveFreesIt) {
  ASSERT_TRUE(TakeTurns());
  placement_->Follow(LastOf(before_));
  for (uint32_t i = 0; i <= Placement::kOthers; ++i) {
    placement_->Note(kProgram, true);
    placement_->NotAlone();
  }
  EXPECT_TRUE(IsFree());
}

TEST_F(PlacementTest, FollowsToAnotherCpuAndIsFreedWhereNoneIsKnown) {
  uint32_t first = 0;
  while (!CPU_ISSET(first, &before_)) ++first;
  placement_->Follow(first);
  placement_->Follow(LastOf(before_));
  EXPECT_EQ(placement_->bound(), LastOf(before_));
  placement_->Follow(std::nullopt);
  EXPECT_TRUE(IsFree());
}

TEST_F(PlacementTest, NeverGoesWhereTheThreadMayNot) {
  uint32_t forbidden = 0;
  while (forbidden < CPU_SETSIZE && CPU_ISSET(forbidden, &before_)) ++forbidden;
  placement_->Follow(LastOf(before_));
  placement_->Follow(forbidden);
  EXPECT_TRUE(IsFree());
  placement_->Follow(1u << 20);  // no CPU at all
  EXPECT_TRUE(IsFree());
}

TEST_F(PlacementTest, LeavesWhatSomebodyElseHasSet) {
  placement_->Follow(LastOf(before_));
  uint32_t first = 0;
  while (!CPU_ISSET(first, &before_)) ++first;
  cpu_set_t other;
  CPU_ZERO(&other);
  CPU_SET(first, &other);
  ASSERT_EQ(sched_setaffinity(0, sizeof(other), &other), 0);
  placement_->Follow(std::nullopt);
  const cpu_set_t now = Cpus();
  EXPECT_TRUE(CPU_EQUAL(&now, &other));
}

}  // namespace
}  // namespace dafs::dat
