// Tracking of threads that retry an open after ESTALE.
#include "fuse/cache/found_gone.h"

#include "gtest/gtest.h"

namespace dafs::fuse {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

TEST(FoundGoneTest, ARetryIsRecognisedOncePerThread) {
  FoundGone gone;
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow));
  gone.Tell(12, 7, kNow);
  EXPECT_FALSE(gone.ComesBack(13, 7, kNow)) << "another thread";
  EXPECT_TRUE(gone.ComesBack(12, 7, kNow));
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow));
}

TEST(FoundGoneTest, OpeningAnotherNodeClearsTheMark) {
  FoundGone gone;
  gone.Tell(12, 7, kNow);
  EXPECT_FALSE(gone.ComesBack(12, 8, kNow));
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow));
}

TEST(FoundGoneTest, ARetryMayOpenTheNodeThatItsLookupFound) {
  FoundGone gone;
  gone.Tell(12, 7, kNow);
  gone.Finds(13, 9);
  gone.Finds(12, 8);
  EXPECT_TRUE(gone.ComesBack(12, 8, kNow));
  gone.Tell(12, 7, kNow);
  gone.Finds(12, 8);
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow)) << "7 is not what its lookup found";
  gone.Tell(12, 7, kNow);
  gone.Finds(12, 0);
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow)) << "the lookup that found nothing has ended the walk";
}

TEST(FoundGoneTest, AMarkExpires) {
  FoundGone gone;
  gone.Tell(12, 7, kNow);
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow + FoundGone::kFor));
}

TEST(FoundGoneTest, ManyThreadsCanRetryAtOnce) {
  FoundGone gone;
  for (uint32_t thread = 1; thread <= FoundGone::kMost; ++thread) gone.Tell(thread, 7, kNow);
  for (uint32_t thread = 1; thread <= FoundGone::kMost; ++thread) {
    EXPECT_TRUE(gone.ComesBack(thread, 7, kNow)) << thread;
  }
}

TEST(FoundGoneTest, ExpiredMarksMakeRoomForNewOnes) {
  FoundGone gone;
  for (uint32_t thread = 1; thread <= FoundGone::kMost; ++thread) gone.Tell(thread, 7, kNow);
  gone.Tell(100'000, 7, kNow + FoundGone::kFor);
  EXPECT_TRUE(gone.ComesBack(100'000, 7, kNow + FoundGone::kFor));
  EXPECT_FALSE(gone.ComesBack(1, 7, kNow));
}

}  // namespace
}  // namespace dafs::fuse
