#include "wire/rpcrdma/read_chunks.h"

#include <gtest/gtest.h>

namespace dafs::rpcrdma {
namespace {

Segment Of(uint32_t length) { return {1, length, 0}; }

TEST(RpcRdmaReadChunks, ChunksGoToTheirPositionsAndArePadded) {
  const std::vector<ReadChunk> chunks = GroupReads({{8, Of(5)}, {8, Of(2)}, {20, Of(4)}});
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ(chunks[0].length, 7u);
  const auto plan = PlanReads(chunks, 16, 100);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Inline 0..8, the chunk at 8..15 with a byte of padding, inline 16..20, the chunk, inline.
  EXPECT_EQ(plan->size, 28u);
  ASSERT_EQ(plan->pieces.size(), 6u);
  EXPECT_EQ(plan->pieces[1].at, 8u);
  EXPECT_EQ(plan->pieces[2].at, 13u);
  EXPECT_EQ(plan->pieces[3].at, 16u);
  EXPECT_EQ(plan->pieces[3].inline_at, 8u);
  EXPECT_EQ(plan->pieces[4].at, 20u);
  EXPECT_EQ(plan->pieces[5].at, 24u);
  EXPECT_EQ(plan->pieces[5].size, 4u);
}

TEST(RpcRdmaReadChunks, WrongPositionsAndSizesAreRefused) {
  EXPECT_FALSE(PlanReads(GroupReads({{6, Of(4)}}), 16, 100).ok());               // alignment
  EXPECT_FALSE(PlanReads(GroupReads({{20, Of(4)}}), 16, 100).ok());              // outside
  EXPECT_FALSE(PlanReads(GroupReads({{0xfffffffc, Of(4)}}), 16, 100).ok());      // far outside
  EXPECT_FALSE(PlanReads(GroupReads({{8, Of(4)}, {4, Of(4)}}), 16, 100).ok());   // order
  EXPECT_FALSE(PlanReads(GroupReads({{8, Of(8)}, {12, Of(4)}}), 16, 100).ok());  // overlap
  EXPECT_FALSE(PlanReads(GroupReads({{8, Of(85)}}), 16, 100).ok());              // size
  EXPECT_FALSE(PlanReads(GroupReads({{8, Of(~0u)}, {8, Of(~0u)}}), 16, 100).ok());
  EXPECT_TRUE(PlanReads(GroupReads({{16, Of(84)}}), 16, 100).ok());
}

}  // namespace
}  // namespace dafs::rpcrdma
