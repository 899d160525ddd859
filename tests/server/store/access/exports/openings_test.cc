// The start of exports of which some cannot be served yet.
#include "server/store/access/exports/openings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
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
    absl::Status status = openings_.Start(open, absl::ZeroDuration(), retry);
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

// The directories of exports that a reload adds.
class OpenMoreTest : public testing::Test {
 protected:
  // Calls wait while the export is in hung_, and fail if it is in refused_.
  Openings::Added OpenMore(const std::vector<size_t>& exports, absl::Duration within) {
    return openings_.OpenMore(
        exports,
        [this](size_t i) {
          absl::MutexLock lock(&mutex_);
          ++calls_[i];
          const auto answers = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
            return !hung_.contains(i);
          };
          mutex_.Await(absl::Condition(&answers));
          return refused_.contains(i) ? absl::NotFoundError("nothing there") : absl::OkStatus();
        },
        [this](size_t i) {
          absl::MutexLock lock(&mutex_);
          dropped_.push_back(i);
        },
        within);
  }
  void Hang(size_t index) {
    absl::MutexLock lock(&mutex_);
    hung_.insert(index);
  }
  void EndHang() {
    absl::MutexLock lock(&mutex_);
    hung_.clear();
  }
  int calls(size_t index) {
    absl::MutexLock lock(&mutex_);
    return calls_[index];
  }
  std::vector<size_t> dropped() {
    absl::MutexLock lock(&mutex_);
    return dropped_;
  }

  absl::Mutex mutex_;
  std::set<size_t> hung_ ABSL_GUARDED_BY(mutex_);
  std::set<size_t> refused_;
  std::map<size_t, int> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> dropped_ ABSL_GUARDED_BY(mutex_);
  Openings openings_{0};
};

TEST_F(OpenMoreTest, AHungExportHasOneCallHoweverOftenItIsWanted) {
  Hang(3);
  do {
    EXPECT_EQ(OpenMore({3}, absl::Milliseconds(1)).unfinished, 3u);
  } while (calls(3) == 0);  // its thread may not run yet
  for (int i = 0; i < 5; ++i) {
    const Openings::Added added = OpenMore({3}, absl::Milliseconds(1));
    EXPECT_EQ(added.unfinished, 3u);
  }
  EXPECT_EQ(calls(3), 1);
  EXPECT_FALSE(openings_.Await(absl::Now()));
  EndHang();
  EXPECT_TRUE(openings_.Await(absl::InfiniteFuture()));
  EXPECT_EQ(calls(3), 1);
  EXPECT_THAT(dropped(), testing::ElementsAre(3));  // no call waited for it
  const Openings::Added added = OpenMore({3}, absl::InfiniteDuration());
  EXPECT_TRUE(added.status.ok()) << added.status;
  EXPECT_FALSE(added.unfinished.has_value());
  EXPECT_EQ(calls(3), 2);
}

TEST_F(OpenMoreTest, ResultOfACallUnderWayIsUsed) {
  Hang(3);
  EXPECT_TRUE(OpenMore({3}, absl::Milliseconds(1)).unfinished.has_value());
  std::thread ending([this] {
    while (calls(3) == 0) std::this_thread::yield();
    EndHang();
  });
  const Openings::Added added = OpenMore({3}, absl::InfiniteDuration());
  ending.join();
  EXPECT_TRUE(added.status.ok()) << added.status;
}

TEST_F(OpenMoreTest, OpenedExportIsDroppedIfAnotherFails) {
  refused_ = {1};
  const Openings::Added added = OpenMore({0, 1, 2}, absl::InfiniteDuration());
  EXPECT_EQ(added.status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(dropped(), testing::UnorderedElementsAre(0, 2));
}

}  // namespace
}  // namespace dafs::server
