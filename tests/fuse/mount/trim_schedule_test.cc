// When the memory of forgotten nodes is released.
#include "fuse/mount/trim_schedule.h"

#include <gtest/gtest.h>

namespace dafs::fuse {
namespace {

constexpr uint64_t kMany = TrimSchedule::kWorthwhile;
constexpr uint64_t kStorm = TrimSchedule::kFew;

TEST(TrimScheduleTest, ManyForgottenNodesAreTrimmedOnceTheKernelStopsForgetting) {
  TrimSchedule schedule;
  EXPECT_FALSE(schedule.IsDue(kMany));
  EXPECT_FALSE(schedule.IsDue(kMany + kStorm));
  EXPECT_TRUE(schedule.IsDue(kMany + kStorm));
  EXPECT_FALSE(schedule.IsDue(kMany + kStorm));
}

TEST(TrimScheduleTest, AFewForgottenNodesNowAndThenDelayNoTrim) {
  TrimSchedule schedule;
  EXPECT_FALSE(schedule.IsDue(kMany));
  EXPECT_TRUE(schedule.IsDue(kMany + kStorm - 1));
}

TEST(TrimScheduleTest, ForgottenNodesAreTrimmedOnceTheyBecomeMany) {
  TrimSchedule schedule;
  uint64_t forgotten = 0;
  while (forgotten + kStorm - 1 < kMany) {
    forgotten += kStorm - 1;
    EXPECT_FALSE(schedule.IsDue(forgotten));
  }
  EXPECT_TRUE(schedule.IsDue(kMany));
}

}  // namespace
}  // namespace dafs::fuse
