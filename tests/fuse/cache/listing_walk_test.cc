#include "fuse/cache/listing_walk.h"

#include <gtest/gtest.h>

#include "fuse/cache/questions_out.h"
#include "tests/fuse/cache/node_fixture.h"

namespace dafs::fuse {
namespace {

using ListingOrderTest = NodeFixture;

TEST_F(ListingOrderTest, ANodeKnowsItsSuccessorInTheListing) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  EXPECT_EQ(listing_order_.NextOf(node), 0u);
  listing_order_.SetNext(node, 99);
  EXPECT_EQ(listing_order_.NextOf(node), 99u);
  EXPECT_EQ(listing_order_.NextOf(98), 0u);
}

TEST(ListingWalk, PrefetchesInListingOrderAndPausesWhenItSavesNothing) {
  ListingWalk walk;
  walk.At(1, 0);
  EXPECT_EQ(walk.Wanted(), 0) << "the first lookup";
  walk.At(1, 2);
  EXPECT_EQ(walk.Wanted(), 0) << "the same node again";
  walk.At(2, 2);
  EXPECT_EQ(walk.Wanted(), ListingWalk::kMostAhead);
  EXPECT_EQ(walk.from(), 2u);
  walk.Asked(3, 5);  // the listing had only three more
  for (uint64_t node : {3UL, 4UL}) {
    walk.At(node, node);
    EXPECT_GT(walk.Wanted(), 0) << "few of the three are left";
    EXPECT_EQ(walk.from(), 5u) << "after the last prefetched node";
    walk.Asked(0, 5);
  }
  walk.At(5, 5);
  EXPECT_EQ(walk.Wanted(), ListingWalk::kMostAhead);
  EXPECT_EQ(walk.from(), 5u);
  walk.At(9, 6);
  EXPECT_EQ(walk.Wanted(), 0) << "out of order";
  walk.At(10, 10);
  EXPECT_EQ(walk.Wanted(), ListingWalk::kMostAhead);
  walk.Vain();
  int vain = 0;
  for (uint64_t node = 11; walk.Wanted() == 0; ++node, ++vain) walk.At(node, node);
  EXPECT_EQ(vain, ListingWalk::kMostAhead);
}

// The next nodes are prefetched before the program has used all of the earlier ones.
TEST(ListingWalk, PrefetchesTheNextNodesBeforeTheEarlierOnesAreUsed) {
  ListingWalk walk;
  walk.At(1, 0);
  walk.At(2, 2);
  ASSERT_EQ(walk.Wanted(), ListingWalk::kMostAhead);
  uint64_t asked = 2 + ListingWalk::kMostAhead;
  walk.Asked(ListingWalk::kMostAhead, asked);
  int times = 0;
  for (uint64_t node = 3; node < 200; ++node) {
    walk.At(node, node);
    if (walk.Wanted() == 0) continue;
    EXPECT_EQ(walk.from(), asked);
    EXPECT_EQ(asked - node, static_cast<uint64_t>(ListingWalk::kFewLeft));
    asked += static_cast<uint64_t>(walk.Wanted());
    EXPECT_EQ(asked - node, static_cast<uint64_t>(ListingWalk::kMostAhead));
    walk.Asked(walk.Wanted(), asked);
    ++times;
  }
  EXPECT_EQ(times, (200 - 3) / (ListingWalk::kMostAhead - ListingWalk::kFewLeft));
  // A program that leaves the listing order gets no prefetch.
  walk.At(7, 200);
  walk.At(8, 8);
  EXPECT_EQ(walk.Wanted(), 0);
}

TEST(QuestionsOut, OneCallerCanWaitForEachRequest) {
  QuestionsOut out;
  QuestionsOut::Question first{.nodeid = 1}, second{.nodeid = 2};
  out.Begin(first);
  out.Begin(second);
  EXPECT_EQ(out.Await(3), nullptr);
  Pending<bool>* pending = out.Await(1);
  ASSERT_EQ(pending, &first.ended);
  EXPECT_EQ(out.Await(1), nullptr) << "another caller waits already";
  bool resumed = false;
  Start([](Pending<bool>& ended, bool& done) -> Task<void> {
    co_await ended;
    done = true;
  }(*pending, resumed));
  EXPECT_FALSE(resumed);
  out.End(first);
  EXPECT_TRUE(resumed);
  EXPECT_EQ(out.Await(1), nullptr);
  out.End(second);
  EXPECT_FALSE(second.ended.is_set()) << "no caller waited";
}

}  // namespace
}  // namespace dafs::fuse
