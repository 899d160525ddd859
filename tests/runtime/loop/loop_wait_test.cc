// A wait that another thread ends.
#include "runtime/loop/loop_wait.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"

namespace dafs {
namespace {

using ::testing::ElementsAre;

class LoopWaitTest : public testing::Test {
 protected:
  Task<void> WaitTimes(int times, absl::Duration most = absl::InfiniteDuration()) {
    for (int i = 0; i < times; ++i) {
      absl::Status status = co_await wait_->Wait(Loop::Now() + most);
      ended_.push_back(status.code());
    }
  }
  void RunPosted() { loop_->RunOnce(absl::ZeroDuration()); }

  const std::unique_ptr<Loop> loop_ = *Loop::Create();
  std::unique_ptr<LoopWait> wait_ = std::make_unique<LoopWait>(*loop_);
  std::vector<absl::StatusCode> ended_;
};

TEST_F(LoopWaitTest, AnotherThreadWakesTheSleepingLoop) {
  Start(WaitTimes(1));
  std::thread other([waker = wait_->waker()] { waker.Wake(); });
  while (ended_.empty()) loop_->RunOnce(absl::Minutes(1));
  other.join();
  EXPECT_THAT(ended_, ElementsAre(absl::StatusCode::kOk));
}

TEST_F(LoopWaitTest, AWakeBeforeTheWaitEndsTheNextOneOnly) {
  wait_->waker().Wake();
  wait_->waker().Wake();
  RunPosted();
  Start(WaitTimes(2));
  RunPosted();
  EXPECT_THAT(ended_, ElementsAre(absl::StatusCode::kOk));
  wait_->waker().Wake();
  EXPECT_EQ(ended_.size(), 1u) << "the loop resumes the coroutine, not the caller of Wake";
  RunPosted();
  EXPECT_THAT(ended_, ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kOk));
}

TEST_F(LoopWaitTest, AWaitEndsAtItsDeadlineOrWithTheStatusGiven) {
  Start(WaitTimes(1, absl::Milliseconds(1)));
  while (ended_.empty()) loop_->RunOnce(absl::Seconds(1));
  Start(WaitTimes(1));
  wait_->End(absl::CancelledError());
  wait_->End(absl::CancelledError());  // none waits
  EXPECT_THAT(ended_,
              ElementsAre(absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kCancelled));
  Start(WaitTimes(1));
  EXPECT_EQ(ended_.size(), 2u);
  wait_->End(absl::OkStatus());
}

TEST_F(LoopWaitTest, AWakerMayOutliveItsWait) {
  const LoopWait::Waker waker = wait_->waker();
  waker.Wake();
  wait_.reset();
  waker.Wake();
  RunPosted();
  EXPECT_TRUE(ended_.empty());
}

}  // namespace
}  // namespace dafs
