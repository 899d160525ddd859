// Queues of waiting coroutines: order, waiters that wait again or end early, and deadlines.
#include "runtime/loop/wait_queue.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "runtime/loop/wait_list.h"

namespace dafs {
namespace {

using ::testing::ElementsAre;

struct Numbered : Waiter {
  explicit Numbered(int number) : number(number) {}
  const int number;
};

struct Log {
  std::vector<int> woken;
  std::vector<absl::Status> statuses;
};

Task<void> WaitIn(WaitQueue<Numbered>& queue, int number, int times, Log* log) {
  for (int i = 0; i < times; ++i) {
    Numbered waiter(number);
    queue.Add(waiter);
    absl::Status status = co_await waiter;
    log->statuses.push_back(std::move(status));
    log->woken.push_back(number);
  }
}

TEST(WaitQueueTest, WakesInOrderOfArrival) {
  WaitQueue<Numbered> queue;
  Log log;
  for (int i = 1; i <= 3; ++i) Start(WaitIn(queue, i, 1, &log));
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.first()->number, 1);
  EXPECT_EQ(queue.Next(*queue.first())->number, 2);
  queue.WakeAll(absl::AbortedError("over"));
  EXPECT_THAT(log.woken, ElementsAre(1, 2, 3));
  for (const absl::Status& status : log.statuses) EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_TRUE(queue.empty());
}

TEST(WaitQueueTest, WakesOneFromTheMiddleAndFromBothEnds) {
  WaitQueue<Numbered> queue;
  Log log;
  for (int i = 1; i <= 4; ++i) Start(WaitIn(queue, i, 1, &log));
  queue.Wake(*queue.Next(*queue.first()), absl::OkStatus());
  queue.Wake(*queue.first(), absl::OkStatus());
  queue.Wake(*queue.Next(*queue.first()), absl::OkStatus());
  EXPECT_EQ(queue.first()->number, 3);
  EXPECT_EQ(queue.Next(*queue.first()), nullptr);
  queue.Wake(*queue.first(), absl::OkStatus());
  EXPECT_THAT(log.woken, ElementsAre(2, 1, 4, 3));
  Start(WaitIn(queue, 5, 1, &log));  // the emptied queue takes waiters again
  queue.WakeAll(absl::OkStatus());
  EXPECT_EQ(log.woken.back(), 5);
}

TEST(WaitQueueTest, CoroutineThatWaitsAgainIsNotWokenTwice) {
  WaitQueue<Numbered> queue;
  Log log;
  Start(WaitIn(queue, 1, 2, &log));
  Start(WaitIn(queue, 2, 1, &log));
  queue.WakeAll(absl::OkStatus());
  EXPECT_THAT(log.woken, ElementsAre(1, 2));
  queue.WakeAll(absl::OkStatus());
  EXPECT_THAT(log.woken, ElementsAre(1, 2, 1));
}

Task<void> AwaitLater(Numbered& waiter, absl::Status* status) { *status = co_await waiter; }

TEST(WaitQueueTest, WaiterMayBeWokenBeforeItIsAwaited) {
  WaitQueue<Numbered> queue;
  Numbered waiter(1);
  queue.Add(waiter);
  queue.Wake(waiter, absl::AbortedError("early"));
  absl::Status status;
  Start(AwaitLater(waiter, &status));
  EXPECT_TRUE(absl::IsAborted(status)) << status;
}

Task<void> WaitUntil(WaitList& list, absl::Time deadline, std::vector<absl::Status>* ended) {
  absl::Status status = co_await list.Wait(deadline);
  ended->push_back(std::move(status));
}

TEST(WaitListTest, WaitEndsAtItsDeadlineOrWithItsEvent) {
  std::unique_ptr<Loop> loop = *Loop::Create();
  WaitList list(*loop);
  std::vector<absl::Status> ended;
  const absl::Time now = Loop::Now();
  Start(WaitUntil(list, absl::InfiniteFuture(), &ended));
  Start(WaitUntil(list, now + absl::Hours(1), &ended));
  Start(WaitUntil(list, now - absl::Seconds(1), &ended));  // suspends nevertheless
  EXPECT_TRUE(ended.empty());
  while (ended.empty()) loop->RunOnce(absl::InfiniteDuration());
  EXPECT_TRUE(absl::IsDeadlineExceeded(ended[0])) << ended[0];
  list.WakeAll(absl::OkStatus());
  ASSERT_EQ(ended.size(), 3u);
  EXPECT_TRUE(ended[1].ok() && ended[2].ok());
  EXPECT_TRUE(list.empty());
}

}  // namespace
}  // namespace dafs
