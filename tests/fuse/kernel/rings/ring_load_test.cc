// When a queue of an io_uring starves, and how many entries it gets.
#include "fuse/kernel/rings/ring_load.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace dafs::fuse {
namespace {

TEST(RingLoad, AQueueStarvesIfAllEntriesAreHeldAndNoneIsAnswered) {
  RingLoad load;
  load.Add(2);
  load.Watch();
  EXPECT_FALSE(load.Take());
  EXPECT_EQ(load.Check(), 0u);
  EXPECT_TRUE(load.Take());
  EXPECT_TRUE(load.full());
  EXPECT_EQ(load.Check(), 2u);
  load.Add(2);
  load.Grew(2);
  EXPECT_FALSE(load.full());
  EXPECT_EQ(load.unkicked(), 2u);
  load.Take();
  EXPECT_TRUE(load.Take());
  load.Answer();
  load.Take();
  EXPECT_EQ(load.Check(), 0u) << "an entry was answered, so the kernel looks at what it keeps";
  load.Watch();
  EXPECT_EQ(load.Check(), 4u);
  load.Kicked();
  EXPECT_EQ(load.unkicked(), 0u);
}

TEST(RingLoad, AnIdleQueueNeedsNoRequestOfTheKernel) {
  RingLoad load;
  load.Add(1);
  load.Take();
  load.Watch();
  EXPECT_EQ(load.Check(), 1u);
  load.Add(1);
  load.Grew(1);
  load.Answer();
  EXPECT_EQ(load.Check(), 0u);
  EXPECT_EQ(load.unkicked(), 0u);
}

TEST(RingLoad, AQueueDoesNotGrowBeyondItsLimit) {
  RingLoad load;
  load.Add(RingLoad::kMostEntries);
  for (size_t i = 0; i < RingLoad::kMostEntries; ++i) load.Take();
  load.Watch();
  EXPECT_EQ(load.Check(), 0u);
  EXPECT_TRUE(load.full());
}

}  // namespace
}  // namespace dafs::fuse
