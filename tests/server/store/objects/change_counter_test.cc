// The counter of the CHANGE attribute, also across times without a descriptor of the object.
#include <gtest/gtest.h>

#include <set>

#include "server/store/objects/object.h"

namespace dafs::server {
namespace {

constexpr uint64_t kBase = ~uint64_t{0} - 500;  // an era may be any number: sums wrap around

TEST(ChangeCounterTest, IsCtimeWhenCtimeDistinguishesChanges) {
  ChangeCounter change(7);
  EXPECT_EQ(change.Value(1000, change.Sample()), 1007u);
  EXPECT_EQ(change.Value(1000, change.Sample()), 1007u);
  EXPECT_EQ(change.Value(2000, change.Sample()), 2007u);
}

TEST(ChangeCounterTest, ModificationsWithinOneClockTickDiffer) {
  ChangeCounter change(kBase);
  std::set<uint64_t> reported;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(reported.insert(change.Value(1000, change.Sample())).second);
    EXPECT_EQ(change.Value(1000, change.Sample()), *reported.rbegin());
    change.Modified();
  }
}

// Two threads take a sample, and the later sample is reported first. The earlier sample belongs to
// a state that was not reported yet.
TEST(ChangeCounterTest, EarlierSampleReportedLaterHasItsOwnNumber) {
  ChangeCounter change(kBase);
  std::set<uint64_t> reported = {change.Value(1000, change.Sample())};
  change.Modified();
  EXPECT_TRUE(reported.insert(change.Value(1000, change.Sample())).second);
  change.Modified();
  const uint64_t early = change.Sample();  // with a ctime of 1000, or another
  change.Modified();
  const uint64_t late = change.Sample();
  EXPECT_TRUE(reported.insert(change.Value(2000, late)).second);
  for (uint64_t ctime : {1000u, 1500u, 2000u}) {
    EXPECT_TRUE(reported.insert(change.Value(ctime, early)).second) << ctime;
  }
  EXPECT_TRUE(reported.insert(change.Value(2000, late)).second);
  EXPECT_EQ(change.Value(2000, late), *reported.rbegin());
}

TEST(ChangeCounterTest, ModificationBetweenSampleAndAnswerIsReportedNext) {
  ChangeCounter change;
  EXPECT_EQ(change.Value(100, change.Sample()), 100u);
  const uint64_t before = change.Sample();
  change.Modified();
  EXPECT_EQ(change.Value(100, before), 100u);
  EXPECT_EQ(change.Value(100, change.Sample()), 101u);
}

TEST(ChangeCounterTest, EqualTimesInDifferentErasDiffer) {
  ChangeCounter before(1000);
  ChangeCounter after(7000);
  EXPECT_EQ(before.Value(100, before.Sample()), 1100u);
  before.Modified();
  EXPECT_EQ(before.Value(100, before.Sample()), 1101u);
  after.Restore(before.Save());
  EXPECT_EQ(after.Value(100, after.Sample()), 7101u);
}

TEST(ChangeCounterTest, ContinuesAfterClockWasSetBack) {
  ChangeCounter change(kBase);
  std::set<uint64_t> reported = {change.Value(1'000'000, change.Sample())};
  for (uint64_t ctime : {10u, 10u, 11u, 999u}) {
    change.Modified();
    EXPECT_TRUE(reported.insert(change.Value(ctime, change.Sample())).second) << ctime;
  }
  change.Modified();
  EXPECT_EQ(change.Value(2'000'000, change.Sample()), kBase + 2'000'000);
}

TEST(ChangeCounterTest, LiveCounterNeverDecreases) {
  ChangeCounter change(kBase);
  change.Value(1000, change.Sample());
  change.Modified();
  change.Value(1000, change.Sample());
  const ChangeCounter::Saved saved = change.Save();
  EXPECT_EQ(saved.extra, 1u);
  change.Modified();
  const uint64_t later = change.Value(1000, change.Sample());
  change.Restore(saved);
  EXPECT_EQ(change.Value(1000, change.Sample()), later);
}

TEST(ChangeCounterTest, NewCounterContinuesFromSavedOne) {
  ChangeCounter before(kBase);
  before.Value(1000, before.Sample());
  before.Modified();
  const uint64_t reported = before.Value(1000, before.Sample());
  const ChangeCounter::Saved saved = before.Save();
  EXPECT_EQ(saved.Value(kBase, 1000), reported) << "without a counter";
  ChangeCounter after(kBase);
  after.Restore(saved);
  EXPECT_EQ(after.Value(1000, after.Sample()), reported);
  const uint64_t ahead = saved.Value(kBase, 500);
  EXPECT_EQ(after.Value(500, after.Sample()), ahead);
}

TEST(ChangeCounterTest, UnreportedModificationIsSaved) {
  ChangeCounter before(kBase);
  const uint64_t reported = before.Value(1000, before.Sample());
  before.Modified();
  const ChangeCounter::Saved saved = before.Save();
  EXPECT_NE(saved.Value(kBase, 1000), reported);
  EXPECT_EQ(ChangeCounter::Saved().Value(kBase, 1000), kBase + 1000);
}

}  // namespace
}  // namespace dafs::server
