#include "server/direct_buffers.h"

#include <gtest/gtest.h>

#include "wire/dat/task.h"

namespace dafs::server {
namespace {

dat::Task<void> TakeInto(DirectBuffers& buffers, size_t size, DirectLease& lease,
                         std::vector<int>& order, int number) {
  lease = co_await buffers.Acquire(size);
  order.push_back(number);
}

TEST(DirectBuffersTest, PiecesAreAlignedApartAndCutToSize) {
  auto buffers = DirectBuffers::Create(2 << 20, 1 << 20);
  ASSERT_TRUE(buffers.ok());
  const size_t all = (*buffers)->free_bytes();
  EXPECT_LE(all, (*buffers)->slab().size());
  std::vector<int> order;
  {
    DirectLease one, two, none;
    dat::Start(TakeInto(**buffers, 100, one, order, 1));
    dat::Start(TakeInto(**buffers, (512 << 10) + 1, two, order, 2));
    dat::Start(TakeInto(**buffers, 0, none, order, 3));
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
    ASSERT_EQ(one.pieces().size(), 1u);
    EXPECT_EQ(one.pieces()[0].size(), 100u);
    ASSERT_EQ(two.pieces().size(), 3u);
    EXPECT_EQ(two.pieces()[2].size(), 1u);
    EXPECT_TRUE(none.pieces().empty());
    for (auto piece : two.pieces()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.data()) % 4096, 0u);
    }
    EXPECT_EQ((*buffers)->free_bytes(), all - DirectBuffers::kSmall - 3 * DirectBuffers::kLarge);
  }
  EXPECT_EQ((*buffers)->free_bytes(), all);
}

TEST(DirectBuffersTest, WhoFindsTooLittleWaitsInLine) {
  auto buffers = DirectBuffers::Create(0, 1 << 20);
  ASSERT_TRUE(buffers.ok());
  const size_t all = (*buffers)->free_bytes();
  std::vector<int> order;
  DirectLease big, next, small;
  dat::Start(TakeInto(**buffers, 1 << 20, big, order, 1));
  dat::Start(TakeInto(**buffers, 512 << 10, next, order, 2));
  dat::Start(TakeInto(**buffers, 10, small, order, 3));  // would fit, but is behind
  EXPECT_EQ(order, (std::vector<int>{1}));
  big.Release();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  next.Release();
  small.Release();
  EXPECT_EQ((*buffers)->free_bytes(), all);
}

}  // namespace
}  // namespace dafs::server
