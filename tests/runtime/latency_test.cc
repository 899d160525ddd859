#include "runtime/latency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace dafs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LatencyHistogram, AnEmptyOneHasNoTimes) {
  const LatencyHistogram empty;
  EXPECT_EQ(empty.count(), 0u);
  EXPECT_EQ(empty.Mean(), absl::ZeroDuration());
  EXPECT_EQ(empty.Quantile(0.99), absl::ZeroDuration());
  EXPECT_THAT(empty.Counts(), IsEmpty());
}

TEST(LatencyHistogram, ABucketEndsBelowItsBound) {
  LatencyHistogram times;
  times.Add(absl::Nanoseconds(999));    // below 1 us
  times.Add(absl::Nanoseconds(1000));   // 1 us: below 2
  times.Add(absl::Nanoseconds(1999));   // below 2
  times.Add(absl::Microseconds(2));     // below 4
  times.Add(absl::Microseconds(7), 5);  // below 8
  EXPECT_THAT(times.Counts(), ElementsAre(1, 2, 1, 5));
  EXPECT_EQ(LatencyHistogram::BoundsUs().size(), LatencyHistogram::kBuckets - 1);
  EXPECT_EQ(LatencyHistogram::BoundsUs()[3], 8u);
  EXPECT_EQ(times.count(), 9u);
}

TEST(LatencyHistogram, TakesAnyDuration) {
  LatencyHistogram times;
  times.Add(-absl::Seconds(1));  // of clocks that disagree
  times.Add(absl::Hours(24 * 365));
  EXPECT_EQ(times.count(), 2u);
  EXPECT_EQ(times.Counts().front(), 1u);
  EXPECT_EQ(times.Counts().size(), LatencyHistogram::kBuckets);
  EXPECT_EQ(times.longest(), absl::Hours(24 * 365));
  EXPECT_EQ(times.Quantile(1), times.longest());
}

TEST(LatencyHistogram, MeanIsExactAndQuantilesLieInTheirBuckets) {
  LatencyHistogram times;
  times.Add(absl::Microseconds(100), 98);  // from 64 to below 128 us
  times.Add(absl::Milliseconds(5), 2);     // from 4096 to below 8192 us
  EXPECT_EQ(times.total(), absl::Microseconds(98 * 100 + 2 * 5000));
  EXPECT_EQ(times.Mean(), times.total() / 100);
  EXPECT_GE(times.Quantile(0.5), absl::Microseconds(64));
  EXPECT_LE(times.Quantile(0.5), absl::Microseconds(128));
  EXPECT_LE(times.Quantile(0.98), absl::Microseconds(128));
  EXPECT_GE(times.Quantile(0.99), absl::Microseconds(4096));
  EXPECT_LE(times.Quantile(0.99), times.longest());
  EXPECT_EQ(times.Quantile(1), times.longest());
}

TEST(LatencyHistogram, MergeAddsAll) {
  LatencyHistogram one, other;
  one.Add(absl::Microseconds(3));
  other.Add(absl::Microseconds(3));
  other.Add(absl::Microseconds(300));
  one.Merge(other);
  EXPECT_EQ(one.count(), 3u);
  EXPECT_EQ(one.total(), absl::Microseconds(306));
  EXPECT_EQ(one.longest(), absl::Microseconds(300));
  EXPECT_THAT(one.Counts(), ElementsAre(0, 0, 2, 0, 0, 0, 0, 0, 0, 1));
}

}  // namespace
}  // namespace dafs
