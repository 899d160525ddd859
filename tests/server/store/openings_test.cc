// The start of exports of which some cannot be served yet.
#include "server/store/openings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace dafs::server {
namespace {

class OpeningsTest : public testing::Test {
 protected:
  // Fails `failures_` times, after the start, and then succeeds.
  absl::Status Start(absl::Duration retry) {
    const auto open = [this](size_t) {
      started_.WaitForNotification();
      ++calls_;
      return calls_ <= failures_ ? absl::NotFoundError("nothing there") : absl::OkStatus();
    };
    const absl::Status status = openings_.Start(open, absl::ZeroDuration(), retry);
    started_.Notify();
    return status;
  }

  absl::Notification started_;
  std::atomic<int> calls_{0};
  int failures_ = 0;
  Openings openings_{1};
};

TEST_F(OpeningsTest, RefusedExportIsTriedUntilItIsServedAndLoggedOnce) {
  failures_ = 3;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Start(absl::Milliseconds(1)).ok());
  EXPECT_TRUE(openings_.Await(absl::InfiniteFuture()));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(calls_, 4);
  EXPECT_THAT(log, testing::HasSubstr("nothing there; its clients wait"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST_F(OpeningsTest, EndDoesNotWaitForTheNextTry) {
  failures_ = 2;
  EXPECT_TRUE(Start(absl::Hours(1)).ok());
  openings_.End();
  EXPECT_TRUE(openings_.Await(absl::InfiniteFuture()));
  EXPECT_EQ(calls_, 1);
  // Its journals are not settled, so no request may reach it while the server stops.
  EXPECT_TRUE(openings_.any());
  EXPECT_TRUE(openings_.IsOpening(0));
}

}  // namespace
}  // namespace dafs::server
