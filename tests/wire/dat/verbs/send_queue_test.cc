// The send queue against a simulated device. It does what a device may do, but what siw and rxe do
// too rarely for a test.
#include "wire/dat/verbs/send_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace dafs::dat::verbs {
namespace {

// Accepts every request, or `takes` requests, and completes none: the test completes them.
struct Device {
  std::vector<ibv_send_wr> posted;
  std::vector<uint32_t> window_keys;  // the key of each bind's window when it was posted
  int calls = 0;
  size_t takes = ~size_t{0};
  ibv_context context = {};
  ibv_qp queue_pair = {};

  Device() {
    context.ops.post_send = [](ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
      auto& device = *static_cast<Device*>(qp->qp_context);
      ++device.calls;
      for (; request != nullptr; request = request->next) {
        if (device.takes-- == 0) {
          device.takes = 0;
          *bad = request;
          return device.posted.empty() ? ENOMEM : 0;  // libsiw returns 0 if it accepted any
        }
        device.posted.push_back(*request);
        if (request->opcode == IBV_WR_BIND_MW) {
          device.window_keys.push_back(request->bind_mw.mw->rkey);
        }
      }
      return 0;
    };
    queue_pair.context = &context;
    queue_pair.qp_context = this;
  }
};

class SendQueueTest : public ::testing::Test {
 protected:
  SendQueueTest() { queue_.Attach(&device_.queue_pair); }

  void Submit(Event event, uint64_t cookie, bool signaled = true, uint32_t bytes = 64) {
    ASSERT_TRUE(Try(event, cookie, signaled, bytes, false).ok());
  }
  // Submits work with the option `more`.
  void SubmitFirst(Event event, uint64_t cookie, bool signaled = false, uint32_t bytes = 64) {
    ASSERT_TRUE(Try(event, cookie, signaled, bytes, true).ok());
  }
  absl::Status Try(Event event, uint64_t cookie, bool signaled, uint32_t bytes, bool more) {
    const ibv_sge segment = {.addr = 4096, .length = bytes, .lkey = 1};
    SendQueue::Operation operation;
    operation.event = event;
    operation.cookie = cookie;
    operation.signaled = signaled;
    operation.more = more;
    return queue_.Submit(operation, std::span(&segment, 1));
  }
  // Returns the cookies reported since the last call.
  std::vector<uint64_t> Reported() {
    std::vector<uint64_t> cookies;
    Completion one[1];
    while (ready_.Take(one) == 1) {
      EXPECT_TRUE(one[0].status.ok());
      cookies.push_back(one[0].cookie);
    }
    return cookies;
  }
  void Complete(size_t nth) { queue_.Complete(device_.posted[nth].wr_id, absl::OkStatus()); }

  using Cookies = std::vector<uint64_t>;
  Device device_;
  ReadyList ready_;
  SendQueue queue_{SendQueueLimits{.max_operations = 8,
                                   .max_requests = 12,
                                   .max_reads = 2,
                                   .max_segments = 1,
                                   .max_request_bytes = 1 << 20,
                                   .signal_bytes = 4096},
                   ready_};
};

// siw reports work posted after a read before the data of the read has arrived.
TEST_F(SendQueueTest, ReadIsDoneOnlyByItsOwnCompletion) {
  Submit(Event::kSend, 1);
  Submit(Event::kRdmaRead, 2);
  Submit(Event::kRdmaWrite, 3, false);
  Submit(Event::kSend, 4);
  Complete(3);
  EXPECT_EQ(Reported(), (Cookies{1, 4}));
  EXPECT_FALSE(queue_.idle());
  Submit(Event::kRdmaRead, 5);
  Complete(1);
  EXPECT_EQ(Reported(), (Cookies{2}));
  Complete(4);
  EXPECT_EQ(Reported(), (Cookies{5}));
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, ReadsWaitForThoseInFlightAndSendsOvertakeThem) {
  for (uint64_t i = 1; i <= 4; ++i) Submit(Event::kRdmaRead, i);
  Submit(Event::kSend, 9);
  ASSERT_EQ(device_.posted.size(), 3u);
  EXPECT_EQ(device_.posted[2].opcode, IBV_WR_SEND);
  Complete(2);
  ASSERT_TRUE(queue_.Pump().ok());
  EXPECT_EQ(device_.posted.size(), 3u);
  Complete(0);
  ASSERT_TRUE(queue_.Pump().ok());
  EXPECT_EQ(device_.posted.size(), 4u);
  EXPECT_EQ(Reported(), (Cookies{9, 1}));
}

TEST_F(SendQueueTest, UnsignaledWorkIsRetiredByLaterWork) {
  for (uint64_t i = 1; i <= 3; ++i) Submit(Event::kSend, i, false);
  Submit(Event::kSend, 4);
  Complete(3);
  Complete(3);  // a device that reports twice
  EXPECT_EQ(Reported(), (Cookies{4}));
  EXPECT_TRUE(queue_.idle());
}

// After an unsignaled write of a page or more, siw reports later work before it has finished with
// the pages of the write.
TEST_F(SendQueueTest, LongUnsignaledWriteIsSignaledToTheDeviceButNotReported) {
  Submit(Event::kRdmaWrite, 1, false, 4095);
  Submit(Event::kRdmaWrite, 2, false, 4096);
  EXPECT_EQ(device_.posted[0].send_flags & IBV_SEND_SIGNALED, 0u);
  EXPECT_NE(device_.posted[1].send_flags & IBV_SEND_SIGNALED, 0u);
  Complete(1);
  EXPECT_EQ(Reported(), (Cookies{}));
  EXPECT_TRUE(queue_.idle());
}

// A probe makes the device wait for the peer. Any other posted work does so too.
TEST_F(SendQueueTest, ProbeIsAnEmptySignaledWriteUnlessOneIsOutstanding) {
  ASSERT_TRUE(queue_.Probe().ok());
  ASSERT_EQ(device_.posted.size(), 1u);
  EXPECT_EQ(device_.posted[0].opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(device_.posted[0].num_sge, 0);
  EXPECT_NE(device_.posted[0].send_flags & IBV_SEND_SIGNALED, 0u);
  ASSERT_TRUE(queue_.Probe().ok());
  EXPECT_EQ(device_.posted.size(), 1u);
  Complete(0);
  EXPECT_TRUE(queue_.idle());
  Submit(Event::kSend, 1, false);
  ASSERT_TRUE(queue_.Probe().ok());
  ASSERT_EQ(device_.posted.size(), 3u);
  Complete(2);
  EXPECT_EQ(Reported(), (Cookies{}));
  EXPECT_TRUE(queue_.idle());
}

// On siw and rxe each call is a system call.
TEST_F(SendQueueTest, DelayedWorkIsPostedInOneCallWithTheNextWork) {
  SubmitFirst(Event::kRdmaWrite, 1);
  SubmitFirst(Event::kRdmaWrite, 2);
  EXPECT_EQ(device_.calls, 0);
  EXPECT_FALSE(queue_.idle());
  Submit(Event::kSend, 3);
  EXPECT_EQ(device_.calls, 1);
  ASSERT_EQ(device_.posted.size(), 3u);
  EXPECT_EQ(device_.posted[2].opcode, IBV_WR_SEND);
  EXPECT_EQ(device_.posted[0].sg_list->addr, 4096u);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(device_.posted[i].wr_id, i);
  EXPECT_EQ(device_.posted[1].send_flags & IBV_SEND_SIGNALED, 0u);
  EXPECT_NE(device_.posted[2].send_flags & IBV_SEND_SIGNALED, 0u);
  Complete(2);
  EXPECT_EQ(Reported(), (Cookies{3}));
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, DelayedWorkIsPostedByRing) {
  ASSERT_TRUE(queue_.Ring().ok());
  SubmitFirst(Event::kSend, 1, true);
  ASSERT_TRUE(queue_.Ring().ok());
  ASSERT_TRUE(queue_.Ring().ok());
  EXPECT_EQ(device_.calls, 1);
  SubmitFirst(Event::kSend, 2);
  ASSERT_TRUE(queue_.Flush().ok());
  EXPECT_EQ(device_.calls, 2);
  ASSERT_EQ(device_.posted.size(), 3u);
  Complete(2);
  EXPECT_EQ(Reported(), (Cookies{1}));
  EXPECT_TRUE(queue_.idle());
}

TEST_F(SendQueueTest, LongWriteIsNotDelayed) {
  SubmitFirst(Event::kRdmaWrite, 1, false, 64 << 10);
  EXPECT_EQ(device_.calls, 1);
  SubmitFirst(Event::kRdmaWrite, 2, false, 4096);
  EXPECT_EQ(device_.calls, 1);
  SubmitFirst(Event::kRdmaWrite, 3, false, 60 << 10);
  EXPECT_EQ(device_.calls, 2);
}

// The queue posts delayed work when it reaches a limit, although more follows. All of it is retired
// and reported once.
TEST_F(SendQueueTest, ChainsOfAnyLengthFitAnyQueue) {
  SendQueue queue({.max_operations = 40,
                   .max_requests = 24,
                   .max_reads = 2,
                   .max_segments = 1,
                   .max_request_bytes = 1 << 20},
                  ready_);
  queue.Attach(&device_.queue_pair);
  const ibv_sge segment = {.addr = 4096, .length = 64, .lkey = 1};
  Cookies reported;
  size_t completed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    SendQueue::Operation operation;
    operation.cookie = i;
    operation.signaled = i % 3 == 0;
    operation.more = i % 7 != 0;
    while (!queue.Submit(operation, {&segment, 1}).ok()) {
      ASSERT_TRUE(queue.Ring().ok());
      ASSERT_LT(completed, device_.posted.size()) << i;
      for (; completed < device_.posted.size(); ++completed) {
        if ((device_.posted[completed].send_flags & IBV_SEND_SIGNALED) == 0) continue;
        queue.Complete(device_.posted[completed].wr_id, absl::OkStatus());
      }
      ASSERT_TRUE(queue.Pump().ok());
      for (uint64_t cookie : Reported()) reported.push_back(cookie);
    }
  }
  EXPECT_LT(device_.calls, 400);
  queue.Abandon(absl::OkStatus());
  for (uint64_t cookie : Reported()) reported.push_back(cookie);
  Cookies signaled;
  for (uint64_t i = 0; i < 1000; i += 3) signaled.push_back(i);
  EXPECT_EQ(reported, signaled);
}

// Work that the device did not accept fails. The work being submitted fails with the status of
// Submit. Earlier delayed work fails at the end of the connection, whether signaled or not.
TEST_F(SendQueueTest, PartlyRefusedChainIsPostedUpToTheRefusal) {
  for (size_t taken = 0; taken < 3; ++taken) {
    SCOPED_TRACE(taken);
    SendQueue queue({.max_operations = 8,
                     .max_requests = 12,
                     .max_reads = 2,
                     .max_segments = 1,
                     .max_request_bytes = 1 << 20},
                    ready_);
    Device device;
    device.takes = taken;
    queue.Attach(&device.queue_pair);
    SendQueue::Operation operation;
    operation.more = true;
    for (operation.cookie = 1; operation.cookie < 3; ++operation.cookie) {
      ASSERT_TRUE(queue.Submit(operation, {}).ok());
    }
    operation.more = false;
    EXPECT_TRUE(absl::IsUnavailable(queue.Submit(operation, {})));
    EXPECT_EQ(device.calls, 1);
    ASSERT_EQ(device.posted.size(), taken);
    for (const ibv_send_wr& request : device.posted) queue.Complete(request.wr_id, {});
    for (uint64_t i = 0; i < 3; ++i) queue.Complete(i, {});
    queue.Abandon(absl::UnavailableError("over"));
    Completion one[1];
    for (uint64_t cookie = 1; cookie < 3; ++cookie) {
      ASSERT_EQ(ready_.Take(one), 1u);
      EXPECT_EQ(one[0].cookie, cookie);
      EXPECT_EQ(one[0].status.ok(), cookie <= taken);
    }
    EXPECT_EQ(ready_.Take(one), 0u);
    EXPECT_TRUE(queue.idle());
  }
}

// A device reads the key of the window when the bind is posted.
TEST_F(SendQueueTest, BindIsPostedWithTheNextSendBeforeTheWindowKeyChanges) {
  ibv_mw window = {};
  window.rkey = 0x700;
  SendQueue::Operation bind;
  bind.event = Event::kInvalidated;
  bind.signaled = false;
  bind.more = true;
  bind.window = &window;
  bind.window_key = 0x701;
  ASSERT_TRUE(queue_.Submit(bind, {}).ok());
  EXPECT_EQ(window.rkey, 0x700u);
  Submit(Event::kSend, 1);
  EXPECT_EQ(device_.calls, 1);
  ASSERT_EQ(device_.posted.size(), 2u);
  EXPECT_EQ(device_.posted[0].opcode, IBV_WR_BIND_MW);
  EXPECT_EQ(device_.window_keys, (std::vector<uint32_t>{0x700}));
  EXPECT_EQ(window.rkey, 0x701u);
}

// Shows DAFS-E.7-01, DAFS-E.7-02, DAFS-E.7-03.
TEST_F(SendQueueTest, NoRequestHasASolicitedEventImmediateDataOrAnAtomicOperation) {
  Submit(Event::kSend, 1);
  Submit(Event::kRdmaWrite, 2);
  Submit(Event::kRdmaRead, 3);
  ASSERT_EQ(device_.posted.size(), 3u);
  for (const ibv_send_wr& request : device_.posted) {
    EXPECT_EQ(request.send_flags & IBV_SEND_SOLICITED, 0u);
    EXPECT_NE(request.opcode, IBV_WR_SEND_WITH_IMM);
    EXPECT_NE(request.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
    EXPECT_NE(request.opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
    EXPECT_NE(request.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
  }
}

}  // namespace
}  // namespace dafs::dat::verbs
