#include "client/state/server/token_thread.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "runtime/loop/run.h"

namespace dafs::client {
namespace {

// The state that a job and the test share: the job may outlive its TokenThread.
struct Hanging {
  absl::Notification begun;
  absl::Notification go;
  absl::Notification ended;
};

void Hang(const std::shared_ptr<Hanging>& shared) {
  shared->begun.Notify();
  shared->go.WaitForNotification();
  shared->ended.Notify();
}

TEST(TokenThreadTest, HangingJobDoesNotBlockTheDestructor) {
  auto loop = *Loop::Create();
  const auto shared = std::make_shared<Hanging>();
  bool is_done = false;
  bool has_second_run = false;
  {
    TokenThread thread;
    auto job = thread.Run(
        *loop, [shared] { Hang(shared); }, [&is_done] { is_done = true; });
    thread.Run(
        *loop, [&has_second_run] { has_second_run = true; }, [] {});
    shared->begun.WaitForNotification();
    job->Cancel();
  }
  EXPECT_TRUE(TokenThread::HasLeftThread());
  shared->go.Notify();
  shared->ended.WaitForNotification();
  EXPECT_FALSE(is_done);
  EXPECT_FALSE(has_second_run);
}

TEST(TokenThreadTest, DoneRunsOnTheLoopAfterTheWork) {
  auto loop = *Loop::Create();
  TokenThread thread;
  auto work = std::make_shared<int>(0);
  bool is_done = false;
  thread.Run(
      *loop, [work] { *work = 1; }, [&is_done, work] { is_done = *work == 1; });
  while (!is_done) RunUntilDone(*loop, loop->Sleep(absl::Milliseconds(1)));
}

// The tasks of this process.
size_t Threads() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    ++count;
  }
  return count;
}

TEST(TokenThreadTest, IdleThreadEndsAndTheNextJobStartsAnother) {
  auto loop = *Loop::Create();
  TokenThread thread(absl::ZeroDuration());
  std::thread([] {}).join();  // with the first thread, ThreadSanitizer starts one of its own
  const size_t before = Threads();
  for (int i = 0; i < 3; ++i) {
    bool is_done = false;
    thread.Run(
        *loop, [] {}, [&is_done] { is_done = true; });
    while (!is_done) RunUntilDone(*loop, loop->Sleep(absl::Milliseconds(1)));
    while (Threads() > before) RunUntilDone(*loop, loop->Sleep(absl::Milliseconds(1)));
  }
}

}  // namespace
}  // namespace dafs::client
