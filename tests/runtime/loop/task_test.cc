// Memory of coroutines at the end of a thread.
#include "runtime/loop/task.h"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/loop/loop.h"
#include "runtime/loop/run.h"

namespace dafs {
namespace {

Task<int> Counts(int depth) {
  if (depth == 0) co_return 0;
  Task<int> deeper = Counts(depth - 1);
  co_return 1 + co_await deeper;
}

struct RunsAtEnd {
  Loop* loop = nullptr;
  int* count = nullptr;
  ~RunsAtEnd() {
    for (int i = 0; i < 10; ++i) *count += RunUntilDone(*loop, Counts(10));
  }
};

TEST(TaskFramesTest, ACoroutineRunsAfterTheVariablesOfItsThreadHaveEnded) {
  auto loop = Loop::Create();
  ASSERT_TRUE(loop.ok());
  int count = 0;
  std::thread([&] {
    // Destroyed last, because it is made first.
    thread_local RunsAtEnd at_end;
    at_end.loop = loop->get();
    at_end.count = &count;
    EXPECT_EQ(RunUntilDone(**loop, Counts(10)), 10);
  }).join();
  EXPECT_EQ(count, 100);
}

}  // namespace
}  // namespace dafs
