#include "fuse/cache/kernel_pages.h"

#include <gtest/gtest.h>

#include "tests/fuse/cache/node_fixture.h"

namespace dafs::fuse {
namespace {

using KernelPagesTest = NodeFixture;

TEST_F(KernelPagesTest, PagesAreCurrentOnlyAtTheChangeThatWasRecordedForThem) {
  uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  attributes_.Sent(node, File(7), start_);
  EXPECT_FALSE(pages_.AreCurrent(node, 7));  // sending attributes does not make pages current
  pages_.Are(node, 7);
  EXPECT_TRUE(pages_.AreCurrent(node, 7));
  EXPECT_FALSE(pages_.AreCurrent(node, 8));
  attributes_.Sent(node, File(8), start_);
  EXPECT_FALSE(pages_.AreCurrent(node, 8));
  pages_.Are(99, 8);  // unknown: ignored
  EXPECT_FALSE(pages_.AreCurrent(99, 8));
}

}  // namespace
}  // namespace dafs::fuse
