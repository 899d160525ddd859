// Credits for RDMA operations, and operations awaited together.
#include "server/session/transfer/rdma_credits.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/loop/task.h"

namespace dafs::server {
namespace {

Task<void> TakeCredits(RdmaCredits& credits, uint32_t count, std::vector<uint32_t>& granted) {
  co_await credits.Take(count);
  granted.push_back(count);
}

TEST(RdmaCreditsTest, CreditsAreGrantedInOrderOfArrival) {
  RdmaCredits credits(4);
  std::vector<uint32_t> granted;
  for (uint32_t count : {3u, 2u, 1u}) Start(TakeCredits(credits, count, granted));
  // One is left, but the transfer of one has to wait for the transfer of two.
  EXPECT_EQ(granted, std::vector<uint32_t>({3}));
  credits.Return(1);
  EXPECT_EQ(granted, std::vector<uint32_t>({3, 2}));
  credits.Return(2);
  EXPECT_EQ(granted, std::vector<uint32_t>({3, 2, 1}));
  credits.Return(3);
  Start(TakeCredits(credits, 4, granted));
  EXPECT_EQ(granted.back(), 4u);
}

TEST(RdmaCreditsTest, ReturnResumesAllTransfersThatFit) {
  RdmaCredits credits(4);
  std::vector<uint32_t> granted;
  for (uint32_t count : {4u, 1u, 2u, 2u}) Start(TakeCredits(credits, count, granted));
  credits.Return(4);
  EXPECT_EQ(granted, std::vector<uint32_t>({4, 1, 2}));
  credits.Return(1);
  EXPECT_EQ(granted, std::vector<uint32_t>({4, 1, 2, 2}));
}

Task<void> Await(RdmaWork& work, bool* ended, bool* succeeded) {
  *succeeded = co_await work;
  *ended = true;
}

TEST(RdmaWorkTest, WaiterResumesAfterTheLastOperation) {
  RdmaWork work;
  work.pending = 2;
  bool ended = false;
  bool succeeded = false;
  Start(Await(work, &ended, &succeeded));
  work.Completed(true);
  EXPECT_FALSE(ended);
  work.Completed(true);
  EXPECT_TRUE(ended);
  EXPECT_TRUE(succeeded);
}

TEST(RdmaWorkTest, OneFailureFailsAll) {
  RdmaWork work;
  work.pending = 2;
  work.Completed(false);
  work.Completed(true);
  bool ended = false;
  bool succeeded = true;
  Start(Await(work, &ended, &succeeded));  // nothing is left to wait for
  EXPECT_TRUE(ended);
  EXPECT_FALSE(succeeded);
}

}  // namespace
}  // namespace dafs::server
