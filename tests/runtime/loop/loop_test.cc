// The loop and the coroutines that run on it: order, wake-ups from other threads, timers, and
// sources removed during a turn.
#include "runtime/loop/loop.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dafs {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Loop> MakeLoop(absl::Duration spin = absl::ZeroDuration()) {
  auto loop = Loop::Create({.max_spin = spin});
  EXPECT_TRUE(loop.ok()) << loop.status();
  return *std::move(loop);
}

// A source over a pipe. Counts its polls and collects the bytes it reads.
class PipeSource : public Pollable {
 public:
  PipeSource() { EXPECT_EQ(pipe2(ends_, O_NONBLOCK | O_CLOEXEC), 0); }
  ~PipeSource() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  bool Poll() override {
    ++polls;
    char byte;
    if (read(ends_[0], &byte, 1) != 1) return false;
    received += byte;
    if (on_byte) on_byte();
    return true;
  }
  WaitHandle Arm() override { return {.fd = ends_[0], .events = EPOLLIN}; }
  void Put(char byte) { EXPECT_EQ(write(ends_[1], &byte, 1), 1); }

  std::string received;
  int polls = 0;
  std::function<void()> on_byte;

 private:
  int ends_[2];
};

TEST(LoopTest, WakesForASourceThatBecomesReadable) {
  auto loop = MakeLoop();
  PipeSource source;
  loop->Add(&source);
  source.on_byte = [&] { loop->Stop(); };
  std::thread writer([&] { source.Put('a'); });
  loop->Run();
  writer.join();
  EXPECT_EQ(source.received, "a");
  loop->Remove(&source);
}

// Polling a source that has nothing costs a system call.
TEST(LoopTest, WithoutSpinningPollsOnlyReadySources) {
  auto loop = MakeLoop();
  PipeSource busy, idle;
  loop->Add(&busy);
  loop->Add(&idle);
  for (int i = 0; i < 10; ++i) loop->RunOnce(absl::ZeroDuration());
  const int before = busy.polls;
  EXPECT_EQ(idle.polls, 1);
  busy.Put('a');
  busy.Put('b');
  for (int i = 0; i < 10; ++i) loop->RunOnce(absl::ZeroDuration());
  EXPECT_EQ(busy.received, "ab");
  EXPECT_EQ(busy.polls, before + 2);
  EXPECT_EQ(idle.polls, 1);
  loop->Remove(&busy);
  loop->Remove(&idle);
}

TEST(LoopTest, RunsAFunctionPostedByAnotherThreadWhileAsleep) {
  auto loop = MakeLoop();
  std::thread poster([&] { loop->Post([&] { loop->Stop(); }); });
  loop->Run();
  poster.join();
}

TEST(LoopTest, ManyPostsRunOnceAndInOrder) {
  auto loop = MakeLoop(absl::Microseconds(20));
  constexpr int kPosts = 20000;
  std::vector<int> seen;
  std::thread poster([&] {
    for (int i = 0; i < kPosts; ++i) {
      loop->Post([&, i] {
        seen.push_back(i);
        if (i + 1 == kPosts) loop->Stop();
      });
    }
  });
  loop->Run();
  poster.join();
  ASSERT_EQ(seen.size(), static_cast<size_t>(kPosts));
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST(LoopTest, TimersRunInOrderOfTimeAndACancelledOneNever) {
  auto loop = MakeLoop();
  std::vector<int> order;
  loop->RunAfter(absl::Milliseconds(4), [&] {
    order.push_back(2);
    loop->Stop();
  });
  loop->RunAfter(absl::Milliseconds(1), [&] { order.push_back(1); });
  Loop::TimerId cancelled = loop->RunAfter(absl::Milliseconds(2), [&] { order.push_back(9); });
  loop->Cancel(cancelled);
  loop->Run();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

// The loop sets the kernel's timer again only for an earlier time.
TEST(LoopTest, TimerAfterACancelledEarlierOneRunsOnTimeInFewTurns) {
  auto loop = MakeLoop();
  const absl::Time start = Loop::Now();
  bool ran = false;
  Loop::TimerId early = loop->RunAfter(absl::Milliseconds(3), [] { FAIL() << "was cancelled"; });
  loop->RunOnce(absl::Milliseconds(1));
  loop->Cancel(early);
  loop->RunAfter(absl::Milliseconds(15), [&] { ran = true; });
  int turns = 0;
  while (!ran && turns < 100) {
    loop->RunOnce(absl::InfiniteDuration());
    ++turns;
  }
  EXPECT_TRUE(ran);
  EXPECT_GE(Loop::Now() - start, absl::Milliseconds(15));
  EXPECT_LE(turns, 6) << "the loop sleeps until there is something to do";
}

TEST(LoopTest, TimerAddedLaterForAnEarlierTimeRunsFirst) {
  auto loop = MakeLoop();
  std::vector<int> order;
  loop->RunAfter(absl::Seconds(30), [&] { order.push_back(2); });
  loop->RunOnce(absl::Milliseconds(1));  // sleeps once with only the late timer
  loop->RunAfter(absl::Milliseconds(2), [&] {
    order.push_back(1);
    loop->Stop();
  });
  loop->Run();
  EXPECT_THAT(order, ElementsAre(1));
}

TEST(LoopTest, SleepsAtMostTheGivenTime) {
  auto loop = MakeLoop();
  loop->RunAfter(absl::Hours(24 * 365 * 1000), [] { FAIL() << "a thousand years early"; });
  loop->RunAfter(absl::InfiniteDuration(), [] { FAIL() << "never"; });
  const absl::Time start = Loop::Now();
  for (int i = 0; i < 5; ++i) loop->RunOnce(absl::Milliseconds(2));
  EXPECT_LT(Loop::Now() - start, absl::Seconds(20));
}

TEST(LoopTest, TimerInThePastRunsImmediately) {
  auto loop = MakeLoop();
  loop->RunAfter(-absl::Hours(24 * 365), [&] { loop->Stop(); });
  loop->Run();
}

TEST(LoopTest, SourceMayRemoveItselfDuringItsPoll) {
  auto loop = MakeLoop();
  PipeSource source;
  loop->Add(&source);
  source.on_byte = [&] {
    loop->Remove(&source);
    loop->Stop();
  };
  source.Put('x');
  source.Put('y');
  loop->Run();
  loop->RunOnce(absl::ZeroDuration());
  EXPECT_EQ(source.received, "x");
}

TEST(LoopTest, ManySourcesAreServedThroughEpoll) {
  auto loop = MakeLoop();
  std::vector<std::unique_ptr<PipeSource>> sources;
  size_t left = 100;
  for (size_t i = 0; i < 100; ++i) {
    sources.push_back(std::make_unique<PipeSource>());
    sources.back()->on_byte = [&] {
      if (--left == 0) loop->Stop();
    };
    loop->Add(sources.back().get());
  }
  loop->RunOnce(absl::ZeroDuration());  // every source is armed and idle
  std::thread writer([&] {
    for (auto& source : sources) source->Put('z');
  });
  loop->Run();
  writer.join();
  for (auto& source : sources) {
    EXPECT_EQ(source->received, "z");
    loop->Remove(source.get());
  }
}

Task<int> Add(Loop* loop, int a, int b) {
  co_await loop->Sleep(absl::Milliseconds(1));
  co_return a + b;
}

Task<void> Sum(Loop* loop, int* result) {
  int first = co_await Add(loop, 1, 2);
  int second = co_await Add(loop, first, 4);
  *result = second;
  loop->Stop();
}

TEST(TaskTest, NestedCoroutinesResumeTheirCallersWithTheValue) {
  auto loop = MakeLoop();
  int result = 0;
  Start(Sum(loop.get(), &result));
  EXPECT_EQ(result, 0) << "waits for the timer";
  loop->Run();
  EXPECT_EQ(result, 7);
}

Task<void> WaitFor(Pending<int>* pending, int* result) { *result = co_await *pending; }

TEST(TaskTest, PendingDeliversWhetherSetBeforeOrAfterTheWait) {
  int early = 0;
  int late = 0;
  Pending<int> set_first;
  set_first.Set(5);
  Start(WaitFor(&set_first, &early));
  EXPECT_EQ(early, 5);
  Pending<int> set_later;
  Start(WaitFor(&set_later, &late));
  EXPECT_EQ(late, 0);
  set_later.Set(6);
  EXPECT_EQ(late, 6);
}

TEST(TaskTest, ThousandNestedAwaitsDoNotGrowTheStack) {
  struct Deep {
    static Task<int> Go(int depth) {
      if (depth == 0) co_return 0;
      int below = co_await Go(depth - 1);
      co_return below + 1;
    }
    static Task<void> Run(int* result) { *result = co_await Go(1000); }
  };
  int result = 0;
  Start(Deep::Run(&result));
  EXPECT_EQ(result, 1000);
}

}  // namespace
}  // namespace dafs
