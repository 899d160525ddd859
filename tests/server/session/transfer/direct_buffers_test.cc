#include "server/session/transfer/direct_buffers.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/loop/task.h"

namespace dafs::server {
namespace {

Task<void> TakeInto(DirectBuffers& buffers, DirectShare& share, size_t size, DirectLease& lease,
                    std::vector<int>& order, int number) {
  lease = co_await buffers.Acquire(share, size);
  order.push_back(number);
}

TEST(DirectBuffersTest, PiecesAreAlignedApartAndCutToSize) {
  auto buffers = DirectBuffers::Create(2 << 20, 1 << 20);
  ASSERT_TRUE(buffers.ok());
  const size_t all = (*buffers)->free_bytes();
  EXPECT_LE(all, (*buffers)->slab().size());
  std::vector<int> order;
  DirectShare share;
  {
    DirectLease one, two, none;
    Start(TakeInto(**buffers, share, 100, one, order, 1));
    Start(TakeInto(**buffers, share, (512 << 10) + 1, two, order, 2));
    Start(TakeInto(**buffers, share, 0, none, order, 3));
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

class DirectLinesTest : public testing::Test {
 protected:
  static constexpr size_t kMib = 1 << 20;

  // Requests `size` bytes of `buffers_`. `number` is added to order_ when the request is served.
  void Take(DirectShare& share, size_t size, int number) {
    Start(TakeInto(*buffers_, share, size, leases_[number], order_, number));
  }
  void Give(int number) { leases_.at(number).Release(); }
  std::vector<int> Served() { return std::exchange(order_, {}); }
  // Makes buffers of `size` bytes; 0 means the minimum of four large pieces.
  void Make(size_t size) {
    auto buffers = DirectBuffers::Create(size, kMib / 2);
    ASSERT_TRUE(buffers.ok());
    buffers_ = *std::move(buffers);
    all_ = buffers_->free_bytes();
  }
  void TearDown() override {
    for (auto& [number, lease] : leases_) lease.Release();
    for (auto& [number, lease] : leases_) lease.Release();  // those that were still waiting
    EXPECT_EQ(buffers_->free_bytes(), all_);
  }

  using Numbers = std::vector<int>;
  std::unique_ptr<DirectBuffers> buffers_;
  size_t all_ = 0;
  DirectShare a_, b_, c_, hung_{true}, other_hung_{true}, third_hung_{true};
  std::map<int, DirectLease> leases_;
  std::vector<int> order_;
};

TEST_F(DirectLinesTest, TransferWithoutEnoughMemoryWaitsInOrder) {
  Make(0);
  Take(a_, kMib, 1);
  Take(b_, kMib / 2, 2);
  Take(c_, kMib / 4, 3);
  EXPECT_EQ(Served(), (Numbers{1}));
  Give(1);
  EXPECT_EQ(Served(), (Numbers{2, 3}));
}

TEST_F(DirectLinesTest, SmallTransferDoesNotWaitForALargeOne) {
  Make(0);
  Take(a_, kMib, 1);
  Take(b_, kMib, 2);
  Take(c_, 10, 3);
  EXPECT_EQ(Served(), (Numbers{1, 3}));
}

TEST_F(DirectLinesTest, MemoryIsLeftForALaterSession) {
  Make(32 * kMib);  // 28 MiB of it in large pieces
  for (int i = 0; i < 64; ++i) Take(a_, kMib, i);
  EXPECT_EQ(Served().size(), 14u);
  for (int i = 100; i < 164; ++i) Take(b_, kMib, i);
  EXPECT_EQ(Served().size(), 7u);
  for (int i = 200; i < 264; ++i) Take(c_, kMib / 4, i);
  EXPECT_EQ(Served().size(), 14u);
}

TEST_F(DirectLinesTest, SessionThatWaitsForItsOwnMemoryDelaysNoOther) {
  Make(4 * kMib);  // 14 large pieces
  Take(a_, kMib, 1);
  Take(a_, kMib, 2);  // would leave less than it holds
  Take(b_, kMib, 3);
  EXPECT_EQ(Served(), (Numbers{1, 3}));
  Take(a_, kMib / 4, 4);  // fits, but the transfers of one session stay in order
  EXPECT_EQ(Served(), (Numbers{}));
  Give(3);
  Give(1);
  EXPECT_EQ(Served(), (Numbers{2, 4}));
}

TEST_F(DirectLinesTest, ExportsThatMayHangUseAtMostHalf) {
  Make(4 * kMib);  // 14 large pieces
  for (int i = 0; i < 8; ++i) Take(i % 2 == 0 ? hung_ : other_hung_, kMib / 2, i);
  EXPECT_EQ(Served(), (Numbers{0, 1, 2}));
  Take(a_, kMib, 100);  // overtakes the waiting transfers
  EXPECT_EQ(Served(), (Numbers{100}));
  Take(b_, kMib / 2, 101);
  Take(c_, kMib / 2, 102);
  EXPECT_EQ(Served(), (Numbers{101, 102}));
  for (int i : {100, 101, 102}) Give(i);
  EXPECT_EQ(Served(), (Numbers{}));
  for (int i : {0, 1, 2}) Give(i);  // the file systems answer
  EXPECT_EQ(Served(), (Numbers{3, 4, 5}));
  for (int i : {3, 4, 5}) Give(i);
  EXPECT_EQ(Served(), (Numbers{6, 7}));
}

TEST_F(DirectLinesTest, LargeTransferIsNotStarvedAmongExportsThatMayHang) {
  Make(8 * kMib);  // 28 large pieces, 14 for exports that may hang
  Take(hung_, 3 * kMib, 1);
  Take(other_hung_, kMib, 2);
  Take(third_hung_, kMib / 4, 3);  // would fit
  Take(a_, kMib, 4);
  EXPECT_EQ(Served(), (Numbers{1, 4}));
  Give(1);
  EXPECT_EQ(Served(), (Numbers{2, 3}));
}

TEST_F(DirectLinesTest, TransferOfAnExportThatMayHangIsServedAloneAtAnySize) {
  Make(0);  // 4 large pieces
  Take(hung_, kMib / 2, 1);
  Take(a_, kMib / 2, 2);
  EXPECT_EQ(Served(), (Numbers{1, 2}));
}

TEST_F(DirectLinesTest, LargeTransferIsNotStarvedBySmallerOnes) {
  Make(0);  // 4 large pieces
  Take(a_, kMib / 4, 1);
  Take(b_, kMib, 2);
  Take(a_, kMib / 4, 3);
  Take(c_, kMib / 4, 4);
  EXPECT_EQ(Served(), (Numbers{1}));  // the free memory is reserved for b
  Give(1);
  EXPECT_EQ(Served(), (Numbers{2}));
  Give(2);
  EXPECT_EQ(Served(), (Numbers{3, 4}));
}

}  // namespace
}  // namespace dafs::server
