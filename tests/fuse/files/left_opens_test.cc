// Which opens of a killed mount.dafs no request uses afterwards.
#include "fuse/files/left_opens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dafs::fuse {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

wire::StateId OpenOf(uint8_t number) {
  wire::StateId open;
  open.bytes[0] = number;
  return open;
}

TEST(LeftOpensTableTest, OpensOfRequestsThatAreNotSentAgainAreUnused) {
  LeftOpens left;
  left.AddOpen(4, OpenOf(4), client::Identity());
  left.AddOpen(6, OpenOf(6), client::Identity());
  left.AddFile(8, 80);
  left.WasSentAgain(6);
  EXPECT_THAT(left.TakeDropped(), ElementsAre(OpenOf(4)));
  EXPECT_FALSE(left.Has(4));
  EXPECT_FALSE(left.Has(8));
  EXPECT_EQ(left.Take(6).open, OpenOf(6)) << "its request is under way";
}

// After two kills. The server may have answered the second OPEN with the open of the first.
TEST(LeftOpensTableTest, AnOpenBesideAFileMayBeInUse) {
  LeftOpens left;
  left.AddFile(4, 40);
  left.AddOpen(4, OpenOf(4), client::Identity());
  EXPECT_THAT(left.TakeDropped(), IsEmpty());
}

}  // namespace
}  // namespace dafs::fuse
