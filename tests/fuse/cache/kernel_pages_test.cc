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

TEST_F(KernelPagesTest, PagesAreOfADelegationAfterAnOpenUnderItHasEnded) {
  const uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  const uint16_t begun = pages_.BeginOpen(node, false);
  EXPECT_FALSE(pages_.AreOf(node, 3));  // the kernel may not have dropped older ones yet
  pages_.EndOpen(node, 3, begun, false);
  EXPECT_TRUE(pages_.AreOf(node, 3));
  EXPECT_FALSE(pages_.AreOf(node, 4));
  pages_.EndOpen(node, 0, pages_.BeginOpen(node, false), false);  // an open under none
  EXPECT_TRUE(pages_.AreOf(node, 3));
  EXPECT_FALSE(pages_.AreOf(node, 0));
  EXPECT_FALSE(pages_.AreOf(99, 3));
}

TEST_F(KernelPagesTest, PagesThatWereBypassedAreOfNoDelegation) {
  const uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  pages_.EndOpen(node, 3, pages_.BeginOpen(node, false), false);
  const uint16_t before = pages_.BeginOpen(node, false);
  const uint16_t bypass = pages_.BeginOpen(node, true);
  EXPECT_FALSE(pages_.AreOf(node, 3));
  const uint16_t during = pages_.BeginOpen(node, false);
  pages_.EndOpen(node, 3, during, false);
  EXPECT_FALSE(pages_.AreOf(node, 3));
  const uint16_t last = pages_.BeginOpen(node, false);
  pages_.EndOpen(node, 3, bypass, true);
  // Their opens may have read pages before the last write past them.
  pages_.EndOpen(node, 3, before, false);
  pages_.EndOpen(node, 3, last, false);
  EXPECT_FALSE(pages_.AreOf(node, 3));
  pages_.EndOpen(node, 3, pages_.BeginOpen(node, false), false);
  EXPECT_TRUE(pages_.AreOf(node, 3));
}

}  // namespace
}  // namespace dafs::fuse
