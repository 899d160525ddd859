// The time limit for transfers without progress.
#include "server/session/transfer/transfer_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace dafs::server {
namespace {

class TransferWatchTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kLimit = absl::Milliseconds(50);

  // Runs the loop until `time` has passed, or the watch has reported.
  void RunFor(absl::Duration time) {
    const absl::Time end = Loop::Now() + time;
    while (!stalled_ && Loop::Now() < end) loop_->RunOnce(absl::Milliseconds(5));
  }

  std::unique_ptr<Loop> loop_ = *Loop::Create();
  std::optional<uint32_t> stalled_;
  TransferWatch watch_{*loop_, kLimit, [this](uint32_t outstanding) { stalled_ = outstanding; }};
};

TEST_F(TransferWatchTest, OperationsWithoutProgressAreReportedAfterTheLimit) {
  const absl::Time start = Loop::Now();
  watch_.Begin(3);
  watch_.Complete(1);
  RunFor(absl::Seconds(30));
  ASSERT_TRUE(stalled_.has_value());
  EXPECT_EQ(*stalled_, 2u);
  EXPECT_GE(Loop::Now() - start, kLimit);
}

TEST_F(TransferWatchTest, ProgressRestartsTheLimit) {
  watch_.Begin(2);
  loop_->RunAfter(kLimit / 2, [this] { watch_.Complete(1); });
  const absl::Time start = Loop::Now();
  RunFor(absl::Seconds(30));
  ASSERT_TRUE(stalled_.has_value());
  // The first timer finds the progress, so the second one reports.
  EXPECT_GE(Loop::Now() - start, 2 * kLimit);
}

TEST_F(TransferWatchTest, NothingIsReportedOnceAllAreCompleteOrTheWatchIsStopped) {
  watch_.Begin(2);
  watch_.Complete(2);
  RunFor(3 * kLimit);
  EXPECT_FALSE(stalled_.has_value());
  watch_.Begin(1);
  watch_.Stop();
  watch_.Begin(1);
  RunFor(3 * kLimit);
  EXPECT_FALSE(stalled_.has_value());
}

}  // namespace
}  // namespace dafs::server
