// For how long a recall counts, and for which files.
#include "server/store/holdings/delegations/recent_recalls.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/server/store/holdings/delegations/delegations_fixture.h"

namespace dafs::server {
namespace {

using RecentRecallsTest = DelegationsFixture;

TEST_F(RecentRecallsTest, ARecallCountsForAWhile) {
  RecentRecalls recent;
  EXPECT_FALSE(recent.Has(Key(1), now_));
  recent.Note(Key(1), now_);
  EXPECT_TRUE(recent.Has(Key(1), now_));
  EXPECT_TRUE(recent.Has(Key(1), now_ + RecentRecalls::kNotAgainFor - absl::Seconds(2)));
  EXPECT_FALSE(recent.Has(Key(1), now_ + RecentRecalls::kNotAgainFor + absl::Seconds(1)));
}

TEST_F(RecentRecallsTest, ARecallCountsForNoOtherFile) {
  constexpr uint64_t kRecalled = 100, kOthers = 10'000;
  RecentRecalls recent;
  for (uint64_t file = 0; file < kRecalled; ++file) recent.Note(Key(file), now_);
  for (uint64_t file = kRecalled; file < kOthers; ++file) {
    EXPECT_FALSE(recent.Has(Key(file), now_)) << file;
  }
}

}  // namespace
}  // namespace dafs::server
