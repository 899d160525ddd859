// A server finds out that its state directory is lost.
#include "server/daemon/state_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "runtime/files/unique_fd.h"
#include "server/clients/state_lock.h"
#include "tests/server/scratch_export.h"

namespace dafs::server {
namespace {

constexpr StateWatch::Options kFast{.every = absl::Milliseconds(5),
                                    .answers_within = absl::Milliseconds(50)};

// Where a watch reports.
struct Loss {
  std::string why;
  absl::Notification came;
  auto Sink() {
    return [this](const std::string& reason) {
      why = reason;
      came.Notify();
    };
  }
};

TEST(StateWatchTest, ACheckThatFailsIsReportedOnce) {
  Loss loss;
  auto checks = std::make_shared<std::atomic<int>>(0);
  const StateWatch watch(
      [checks] {
        return ++*checks < 3 ? absl::OkStatus() : absl::FailedPreconditionError("evicted");
      },
      kFast, loss.Sink());
  loss.came.WaitForNotification();
  EXPECT_EQ(loss.why, "evicted");
  EXPECT_EQ(*checks, 3);
}

TEST(StateWatchTest, ACheckThatHangsIsReportedAndNotAwaitedAtTheEnd) {
  Loss loss;
  auto answer = std::make_shared<absl::Notification>();
  {
    const StateWatch watch(
        [answer] {
          answer->WaitForNotification();
          return absl::OkStatus();
        },
        kFast, loss.Sink());
    loss.came.WaitForNotification();
    EXPECT_EQ(loss.why, "no answer for 50ms");
  }
  answer->Notify();
}

TEST(StateWatchTest, ChecksThatSucceedAreNotReported) {
  struct Checks {
    std::atomic<int> count{0};
    absl::Notification enough;
  };
  auto checks = std::make_shared<Checks>();  // a check may outlive the watch
  Loss loss;
  {
    const StateWatch watch(
        [checks] {
          if (++checks->count == 20) checks->enough.Notify();
          return absl::OkStatus();
        },
        kFast, loss.Sink());
    checks->enough.WaitForNotification();
  }
  EXPECT_FALSE(loss.came.HasBeenNotified());
}

class StateWatchLockTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(base_, "");
    absl::StatusOr<std::unique_ptr<StateLock>> lock = StateLock::Acquire(base_ + "/state");
    ASSERT_TRUE(lock.ok()) << lock.status();
    lock_ = *std::move(lock);
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  const std::string base_ = MakeScratch("watch");
  std::unique_ptr<StateLock> lock_;
};

TEST_F(StateWatchLockTest, ALocalFileSystemIsNotWatched) {
  EXPECT_TRUE(StateLock::Confirm(lock_->fd()).ok());
  EXPECT_EQ(StateWatch::For(*lock_, base_ + "/state", [](const std::string&) {}), nullptr);
}

TEST_F(StateWatchLockTest, ALockThatAnotherServerHoldsIsNotConfirmed) {
  const UniqueFd other(open((base_ + "/state/lock").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(StateLock::Confirm(other.get()).ok());
}

}  // namespace
}  // namespace dafs::server
