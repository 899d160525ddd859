#include <gtest/gtest.h>

#include "fuse/cache/stat_habit.h"

namespace dafs::fuse {
namespace {

TEST(StatHabit, AttributesAreRequestedWithWritesWhileProgramsUseThem) {
  StatHabit habit;
  EXPECT_FALSE(habit.Expected());
  for (int i = 0; i < 100; ++i) habit.Asked();
  int writes = 0;
  for (; habit.Expected() && writes < 100; ++writes) habit.Paid();
  EXPECT_EQ(writes, 16);
}

}  // namespace
}  // namespace dafs::fuse
