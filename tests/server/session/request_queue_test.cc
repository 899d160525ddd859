// The order of requests, and of the members of chains.
#include "server/session/request_queue.h"

#include <gtest/gtest.h>

#include <deque>

namespace dafs::server {
namespace {

using wire::DafsStatus;

class RequestQueueTest : public ::testing::Test {
 protected:
  // Adds a request with `chain_flags` that has just arrived.
  Request& Arrive(uint16_t chain_flags = 0) {
    Request& request = requests_.emplace_back();
    request.verdict.header.chain_flags = chain_flags;
    queue_.Add(request);
    return request;
  }
  // Ends the execution of `request`, and sends its response.
  void Answer(Request& request, DafsStatus status = DafsStatus::kOk) {
    queue_.End();
    if (request.chain != nullptr) queue_.Advance(*request.chain, status);
  }

  RequestQueue queue_;
  std::deque<Request> requests_;
};

TEST_F(RequestQueueTest, RequestsBeginInOrderOfArrival) {
  Request& first = Arrive();
  Request& second = Arrive();
  EXPECT_FALSE(queue_.busy());
  EXPECT_EQ(&queue_.Begin(), &first);
  EXPECT_EQ(&queue_.Begin(), &second);
  EXPECT_FALSE(queue_.has_ready());
  queue_.End();
  EXPECT_TRUE(queue_.busy());
  queue_.End();
  EXPECT_FALSE(queue_.busy());
}

TEST_F(RequestQueueTest, MemberOfAChainWaitsForItsPredecessorAndOthersOvertakeIt) {
  Request& head = Arrive(wire::kChfForw);
  Request& tail = Arrive(wire::kChfBack);
  Request& single = Arrive();
  EXPECT_EQ(head.chain, tail.chain);
  EXPECT_EQ(single.chain, nullptr);
  EXPECT_EQ(&queue_.Begin(), &head);
  EXPECT_EQ(&queue_.Begin(), &single);
  EXPECT_FALSE(queue_.has_ready());
  Answer(head);
  EXPECT_EQ(&queue_.Begin(), &tail);
}

TEST_F(RequestQueueTest, NextMemberBeginsBeforeRequestsThatAreReady) {
  Request& head = Arrive(wire::kChfForw);
  Request& tail = Arrive(wire::kChfBack);
  EXPECT_EQ(&queue_.Begin(), &head);
  Request& single = Arrive();
  Answer(head);
  EXPECT_EQ(&queue_.Begin(), &tail);
  EXPECT_EQ(&queue_.Begin(), &single);
}

TEST_F(RequestQueueTest, FailureBreaksTheChainForAllLaterMembers) {
  Request& head = Arrive(wire::kChfForw);
  queue_.Begin();
  Answer(head, DafsStatus::kNoEnt);
  Request& middle = Arrive(wire::kChfForw | wire::kChfBack);  // arrives after the failure
  EXPECT_EQ(StatusInChain(DafsStatus::kOk, middle.chain.get()), DafsStatus::kChainBroken);
  EXPECT_EQ(&queue_.Begin(), &middle);
  Answer(middle, DafsStatus::kChainBroken);
  Request& tail = Arrive(wire::kChfBack);
  EXPECT_EQ(StatusInChain(DafsStatus::kOk, tail.chain.get()), DafsStatus::kChainBroken);
  Request& next = Arrive(wire::kChfForw);  // of another chain
  EXPECT_EQ(StatusInChain(DafsStatus::kOk, next.chain.get()), DafsStatus::kOk);
}

TEST_F(RequestQueueTest, ClearedQueueBeginsNothing) {
  Arrive();
  queue_.Clear();
  EXPECT_FALSE(queue_.has_ready());
}

}  // namespace
}  // namespace dafs::server
