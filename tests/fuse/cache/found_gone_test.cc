// Who comes back with the file that he was told is not there.
#include "fuse/cache/found_gone.h"

#include "gtest/gtest.h"

namespace dafs::fuse {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

TEST(FoundGoneTest, AThreadComesBackOnce) {
  FoundGone gone;
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow));
  gone.Tell(12, 7, kNow);
  EXPECT_FALSE(gone.ComesBack(13, 7, kNow)) << "another thread";
  EXPECT_TRUE(gone.ComesBack(12, 7, kNow));
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow));
}

TEST(FoundGoneTest, WhoOpensSomethingElseIsToldAgain) {
  FoundGone gone;
  gone.Tell(12, 7, kNow);
  EXPECT_FALSE(gone.ComesBack(12, 8, kNow));
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow));
}

TEST(FoundGoneTest, WhoFindsAnotherFileByTheNameComesBackWithThat) {
  FoundGone gone;
  gone.Tell(12, 7, kNow);
  gone.Finds(13, 9);
  gone.Finds(12, 8);
  EXPECT_TRUE(gone.ComesBack(12, 8, kNow));
  gone.Tell(12, 7, kNow);
  gone.Finds(12, 8);
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow)) << "by a name that was not looked up";
  gone.Tell(12, 7, kNow);
  gone.Finds(12, 0);
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow)) << "the walk had ended";
}

TEST(FoundGoneTest, NobodyComesBackAfterALongTime) {
  FoundGone gone;
  gone.Tell(12, 7, kNow);
  EXPECT_FALSE(gone.ComesBack(12, 7, kNow + FoundGone::kFor));
}

TEST(FoundGoneTest, ManyThreadsComeBackAtOnce) {
  FoundGone gone;
  for (uint32_t thread = 1; thread <= FoundGone::kMost; ++thread) gone.Tell(thread, 7, kNow);
  for (uint32_t thread = 1; thread <= FoundGone::kMost; ++thread) {
    EXPECT_TRUE(gone.ComesBack(thread, 7, kNow)) << thread;
  }
}

TEST(FoundGoneTest, OldMarksMakeRoom) {
  FoundGone gone;
  for (uint32_t thread = 1; thread <= FoundGone::kMost; ++thread) gone.Tell(thread, 7, kNow);
  gone.Tell(100'000, 7, kNow + FoundGone::kFor);
  EXPECT_TRUE(gone.ComesBack(100'000, 7, kNow + FoundGone::kFor));
  EXPECT_FALSE(gone.ComesBack(1, 7, kNow));
}

}  // namespace
}  // namespace dafs::fuse
