#include "fuse/cache/habit.h"

#include <gtest/gtest.h>

namespace dafs::fuse {
namespace {

// The prefetches of which none is used until the prediction ends.
int PrefetchesInVain(Habit& habit) {
  int count = 0;
  for (; habit.Expected() && count < 100; ++count) habit.Paid();
  return count;
}

TEST(Habit, AttributesAreRequestedWithWritesWhileProgramsUseThem) {
  Habit habit(kStatAfterChange);
  EXPECT_FALSE(habit.Expected());
  habit.Used();
  EXPECT_EQ(PrefetchesInVain(habit), 2);
  for (int i = 0; i < 100; ++i) habit.Used();
  EXPECT_EQ(PrefetchesInVain(habit), 16);
}

TEST(Habit, ListingsAreReadWithAclsUntilProgramsDoNotRequestThem) {
  Habit habit(kAclsOfListing);
  EXPECT_EQ(PrefetchesInVain(habit), 3);
  habit.Paid();  // does not go below zero
  habit.Used();
  EXPECT_EQ(PrefetchesInVain(habit), 6);
}

TEST(Habit, ADirectoryIsReadAtOpenIfTheLastOneWasListed) {
  Habit habit(kListingOfOpened);
  EXPECT_TRUE(habit.Expected());
  habit.Paid();
  EXPECT_FALSE(habit.Expected());
  habit.Used();
  habit.Used();
  EXPECT_TRUE(habit.Expected());
  habit.Paid();
  EXPECT_FALSE(habit.Expected());
}

}  // namespace
}  // namespace dafs::fuse
