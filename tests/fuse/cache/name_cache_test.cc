#include "fuse/cache/name_cache.h"

#include <gtest/gtest.h>

#include "tests/fuse/cache/node_fixture.h"

namespace dafs::fuse {
namespace {

using NameCacheTest = NodeFixture;

TEST_F(NameCacheTest, NamesOfAFileAreTrackedWithItsChange) {
  const uint64_t node = table_.Remember(Handle(1), File(1), {kRootNode, "a"});
  names_.Sent(node, {kRootNode, "a"}, 1, start_, start_ + absl::Seconds(10));
  auto later = [this](int seconds) { return start_ + absl::Seconds(seconds); };
  EXPECT_TRUE(names_.NotSeenAt(node, 1, later(1)).empty());
  EXPECT_EQ(names_.NotSeenAt(node, 2, later(1)), (Places{{kRootNode, "a"}}));
  EXPECT_TRUE(names_.LikelyOld(node, later(1)).empty());
  attributes_.Touch(node, later(1));
  EXPECT_EQ(names_.LikelyOld(node, later(2)), (Places{{kRootNode, "a"}}));
  names_.Confirm(node, {kRootNode, "a"}, 2, later(2));
  EXPECT_TRUE(names_.LikelyOld(node, later(3)).empty());
  names_.own_moves().Moved({kRootNode, "a"}, {kRootNode, "b"}, false, later(3));
  EXPECT_EQ(names_.LikelyOld(node, later(4)), (Places{{kRootNode, "b"}}));
  EXPECT_FALSE(names_.AnyLost(node, 2, later(4)));
  names_.Lose(node, {kRootNode, "b"});
  EXPECT_TRUE(names_.AnyLost(node, 2, later(4)));
  EXPECT_FALSE(names_.AnyLost(999999, 2, later(4)));
}

}  // namespace
}  // namespace dafs::fuse
