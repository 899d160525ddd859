// The send queue against a device of our own making, which does what a device may do and siw and
// rxe do too seldom to be tested with.
#include "wire/dat/verbs_send_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace dafs::dat::verbs {
namespace {

// Takes every request and completes none: the test does.
struct Device {
  std::vector<ibv_send_wr> posted;
  ibv_context context = {};
  ibv_qp queue_pair = {};

  Device() {
    context.ops.post_send = [](ibv_qp* qp, ibv_send_wr* request, ibv_send_wr**) {
      static_cast<Device*>(qp->qp_context)->posted.push_back(*request);
      return 0;
    };
    queue_pair.context = &context;
    queue_pair.qp_context = this;
  }
};

class SendQueueTest : public ::testing::Test {
 protected:
  SendQueueTest() { queue_.Attach(&device_.queue_pair, nullptr); }

  void Submit(Event event, uint64_t cookie, bool signaled = true, uint32_t bytes = 64) {
    const ibv_sge segment = {.addr = 4096, .length = bytes, .lkey = 1};
    SendQueue::Operation operation;
    operation.event = event;
    operation.cookie = cookie;
    operation.signaled = signaled;
    ASSERT_TRUE(queue_.Submit(operation, std::span(&segment, 1)).ok());
  }
  // The cookies of what was reported since the last call.
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

// siw reports what was posted behind a read before the read's data is there.
TEST_F(SendQueueTest, AReadIsOverByItsOwnCompletionOnly) {
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

TEST_F(SendQueueTest, ReadsWaitForThoseInFlightAndSendsPassThem) {
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

TEST_F(SendQueueTest, UnsignaledWorkIsRetiredByWhatFollowsIt) {
  for (uint64_t i = 1; i <= 3; ++i) Submit(Event::kSend, i, false);
  Submit(Event::kSend, 4);
  Complete(3);
  Complete(3);  // a device that reports twice
  EXPECT_EQ(Reported(), (Cookies{4}));
  EXPECT_TRUE(queue_.idle());
}

// siw reports what follows an unsignaled write of a page or more before it is done with its pages.
TEST_F(SendQueueTest, WhatTheDeviceWouldSendByReferenceIsSignaledAndNotReported) {
  Submit(Event::kRdmaWrite, 1, false, 4095);
  Submit(Event::kRdmaWrite, 2, false, 4096);
  EXPECT_EQ(device_.posted[0].send_flags & IBV_SEND_SIGNALED, 0u);
  EXPECT_NE(device_.posted[1].send_flags & IBV_SEND_SIGNALED, 0u);
  Complete(1);
  EXPECT_EQ(Reported(), (Cookies{}));
  EXPECT_TRUE(queue_.idle());
}

// A probe is there so that the device waits for the peer, which it does for all that is posted.
TEST_F(SendQueueTest, AProbeIsAWriteOfNothingWhereNothingElseIsOut) {
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

// Shows DAFS-E.7-01
// Shows DAFS-E.7-02
TEST_F(SendQueueTest, NoRequestAsksForASolicitedEventOrCarriesImmediateData) {
  Submit(Event::kSend, 1);
  Submit(Event::kRdmaWrite, 2);
  Submit(Event::kRdmaRead, 3);
  for (const ibv_send_wr& request : device_.posted) {
    EXPECT_EQ(request.send_flags & IBV_SEND_SOLICITED, 0u);
    EXPECT_NE(request.opcode, IBV_WR_SEND_WITH_IMM);
    EXPECT_NE(request.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  }
}

}  // namespace
}  // namespace dafs::dat::verbs
