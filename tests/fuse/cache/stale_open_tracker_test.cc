// Tracking of threads that retry an open after ESTALE.
#include "fuse/cache/stale_open_tracker.h"

#include "gtest/gtest.h"

namespace dafs::fuse {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

TEST(StaleOpenTrackerTest, ARetryIsRecognisedOncePerThread) {
  StaleOpenTracker tracker;
  EXPECT_FALSE(tracker.IsRetry(12, 7, kNow));
  tracker.NoteStale(12, 7, kNow);
  EXPECT_FALSE(tracker.IsRetry(13, 7, kNow)) << "another thread";
  EXPECT_TRUE(tracker.IsRetry(12, 7, kNow));
  EXPECT_FALSE(tracker.IsRetry(12, 7, kNow));
}

TEST(StaleOpenTrackerTest, OpeningAnotherNodeClearsTheMark) {
  StaleOpenTracker tracker;
  tracker.NoteStale(12, 7, kNow);
  EXPECT_FALSE(tracker.IsRetry(12, 8, kNow));
  EXPECT_FALSE(tracker.IsRetry(12, 7, kNow));
}

TEST(StaleOpenTrackerTest, ARetryMayOpenTheNodeThatItsLookupFound) {
  StaleOpenTracker tracker;
  tracker.NoteStale(12, 7, kNow);
  tracker.NoteLookup(13, 9);
  tracker.NoteLookup(12, 8);
  EXPECT_TRUE(tracker.IsRetry(12, 8, kNow));
  tracker.NoteStale(12, 7, kNow);
  tracker.NoteLookup(12, 8);
  EXPECT_FALSE(tracker.IsRetry(12, 7, kNow)) << "7 is not what its lookup found";
  tracker.NoteStale(12, 7, kNow);
  tracker.NoteLookup(12, 0);
  EXPECT_FALSE(tracker.IsRetry(12, 7, kNow)) << "the lookup that found nothing has ended the walk";
}

TEST(StaleOpenTrackerTest, AMarkExpires) {
  StaleOpenTracker tracker;
  tracker.NoteStale(12, 7, kNow);
  EXPECT_FALSE(tracker.IsRetry(12, 7, kNow + StaleOpenTracker::kFor));
}

TEST(StaleOpenTrackerTest, ManyThreadsCanRetryAtOnce) {
  StaleOpenTracker tracker;
  for (uint32_t thread = 1; thread <= StaleOpenTracker::kMost; ++thread)
    tracker.NoteStale(thread, 7, kNow);
  for (uint32_t thread = 1; thread <= StaleOpenTracker::kMost; ++thread) {
    EXPECT_TRUE(tracker.IsRetry(thread, 7, kNow)) << thread;
  }
}

TEST(StaleOpenTrackerTest, ExpiredMarksMakeRoomForNewOnes) {
  StaleOpenTracker tracker;
  for (uint32_t thread = 1; thread <= StaleOpenTracker::kMost; ++thread)
    tracker.NoteStale(thread, 7, kNow);
  tracker.NoteStale(100'000, 7, kNow + StaleOpenTracker::kFor);
  EXPECT_TRUE(tracker.IsRetry(100'000, 7, kNow + StaleOpenTracker::kFor));
  EXPECT_FALSE(tracker.IsRetry(1, 7, kNow));
}

}  // namespace
}  // namespace dafs::fuse
