#include "fuse/cache/inode_table.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/fuse/cache/node_fixture.h"

namespace dafs::fuse {
namespace {

using InodeTableTest = NodeFixture;

TEST_F(InodeTableTest, RootIsNodeOneAndIsNeverForgotten) {
  ASSERT_TRUE(table_.Find(kRootNode).has_value());
  EXPECT_EQ(table_.Find(kRootNode)->handle, Handle(0));
  table_.Forget(kRootNode, 1000);
  EXPECT_TRUE(table_.Find(kRootNode).has_value());
}

TEST_F(InodeTableTest, ShrinkToFitKeepsTheRemainingNodes) {
  std::vector<uint64_t> nodes;
  for (int i = 0; i < 20000; ++i) {
    wire::FileHandle handle = Handle(9);
    handle.fileid.bytes[2] = static_cast<uint8_t>(i);
    handle.fileid.bytes[3] = static_cast<uint8_t>(i >> 8);
    nodes.push_back(table_.Remember(handle, File(1), {kRootNode, std::to_string(i)}));
  }
  for (size_t i = 100; i < nodes.size(); ++i) table_.Forget(nodes[i], 1);
  EXPECT_EQ(table_.forgotten(), 19900u);
  table_.ShrinkToFit();
  EXPECT_EQ(table_.size(), 101u);
  for (size_t i = 0; i < 100; ++i) {
    const std::optional<InodeView> view = table_.Find(nodes[i]);
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(table_.NodeOf(view->handle), nodes[i]);
    EXPECT_EQ(table_.LatestDentryOf(nodes[i]).name, std::to_string(i));
  }
  EXPECT_FALSE(table_.Find(nodes[100]).has_value());
}

TEST_F(InodeTableTest, AHandleHasOneNodeUnderAllItsNames) {
  uint64_t first = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  uint64_t second = table_.Remember(Handle(5), File(1), {kRootNode, "b"});
  EXPECT_EQ(first, second);
  EXPECT_EQ(table_.NodeOf(Handle(5)), first);
  EXPECT_EQ(table_.LatestDentryOf(first).name, "b");
  EXPECT_EQ(table_.Find(first)->file_id, 77u);
  EXPECT_EQ(table_.Find(first)->type, wire::ObjectType::kReg);
}

// If the kernel cannot move a directory, it repeats the lookup: it holds the lock of renames then.
TEST_F(InodeTableTest, ADirectoryThatTheKernelCannotMoveGetsANewNode) {
  const wire::FileAttributes directory = File(1, wire::ObjectType::kDir);
  const absl::Duration soon = absl::Milliseconds(1);
  auto look = [&](const DentryName& dentry, uint32_t thread, absl::Duration when) {
    return table_.Remember(Handle(5), directory, dentry, {thread, start_ + when});
  };
  const DentryName first{kRootNode, "d"};
  const DentryName second{77, "d"};
  const uint64_t node = look(first, 1, {});
  EXPECT_EQ(look(first, 1, soon), node);  // a repeated lookup at the same place
  EXPECT_EQ(look({kRootNode, "e"}, 1, soon), node);
  EXPECT_EQ(look({kRootNode, "e"}, 1, soon), node);  // the kernel can move it within a directory

  EXPECT_EQ(look(second, 1, soon), node);
  EXPECT_EQ(look(second, 2, soon), node);               // another thread
  EXPECT_EQ(look(second, 2, absl::Seconds(10)), node);  // the same thread, but not soon
  table_.Accepted(node, 1);                             // not the thread of the last lookup
  table_.Accepted(node, 2);  // the thread uses the node, so the kernel has accepted it
  EXPECT_EQ(look(second, 2, absl::Seconds(10)), node);

  EXPECT_EQ(look(first, 3, absl::Seconds(20)), node);
  const uint64_t other = look(first, 3, absl::Seconds(20) + soon);
  EXPECT_NE(other, node);
  EXPECT_EQ(table_.NodeOf(Handle(5)), other);
  EXPECT_EQ(table_.Find(other)->handle, Handle(5));
  EXPECT_EQ(table_.LatestDentryOf(other).parent, kRootNode);
  EXPECT_EQ(look(first, 3, absl::Seconds(20) + soon), other);
  // The old node is removed with its last lookup. The new node stays.
  EXPECT_TRUE(table_.Find(node).has_value());
  table_.Forget(node, 100);
  EXPECT_FALSE(table_.Find(node).has_value());
  EXPECT_EQ(table_.NodeOf(Handle(5)), other);
  table_.Forget(other, 2);
  EXPECT_EQ(table_.NodeOf(Handle(5)), 0u);
}

// A rename by this mount moves the directory in the kernel, too. Another client has moved it back.
TEST_F(InodeTableTest, ADirectoryThatWasMovedAwayAndBackGetsANewNode) {
  const wire::FileAttributes directory = File(1, wire::ObjectType::kDir);
  const DentryName first{kRootNode, "d"};
  auto look = [&] { return table_.Remember(Handle(5), directory, first, {3, start_}); };
  const uint64_t node = look();
  table_.Moved(node, first, {77, "e"}, start_);
  EXPECT_EQ(table_.LatestDentryOf(node).name, "e");
  EXPECT_EQ(look(), node);
  EXPECT_NE(look(), node);

  const uint64_t file = table_.Remember(Handle(6), File(1), {kRootNode, "f"});
  table_.Moved(file, {77, "g"}, {77, "f"}, start_);
  EXPECT_EQ(table_.LatestDentryOf(file).parent, kRootNode) << "another name of the file";
  table_.Moved(file, {kRootNode, "f"}, {77, "f"}, start_);
  EXPECT_EQ(table_.LatestDentryOf(file).parent, 77u);
}

TEST_F(InodeTableTest, FilesAndListedDirectoriesKeepTheirNode) {
  const uint64_t file = table_.Remember(Handle(5), File(1), {kRootNode, "f"}, {1, start_});
  EXPECT_EQ(table_.Remember(Handle(5), File(1), {77, "f"}, {1, start_}), file);
  EXPECT_EQ(table_.Remember(Handle(5), File(1), {77, "f"}, {1, start_}), file);
  const wire::FileAttributes attributes = File(1, wire::ObjectType::kDir);
  const uint64_t directory = table_.Remember(Handle(6), attributes, {kRootNode, "d"}, {1, start_});
  EXPECT_EQ(table_.Remember(Handle(6), attributes, {77, "d"}), directory);
  EXPECT_EQ(table_.Remember(Handle(6), attributes, {77, "d"}), directory);
}

TEST_F(InodeTableTest, ANodeIsRemovedWithItsLastLookup) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  table_.Forget(node, 2);
  EXPECT_TRUE(table_.Find(node).has_value());
  table_.Forget(node, 1);
  EXPECT_FALSE(table_.Find(node).has_value());
  EXPECT_EQ(table_.NodeOf(Handle(5)), 0u);
  EXPECT_EQ(table_.size(), 1u);
}

TEST_F(InodeTableTest, ForgetIgnoresExcessCountsAndUnknownNodes) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  table_.Forget(node, ~uint64_t{0});
  EXPECT_FALSE(table_.Find(node).has_value());
  table_.Forget(node, 1);
  table_.Forget(123456, 1);
  EXPECT_EQ(table_.size(), 1u);
}

TEST_F(InodeTableTest, NodeIdsAreNeverReused) {
  uint64_t before = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  table_.Forget(before, 1);
  uint64_t after = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  EXPECT_NE(before, after);
  EXPECT_FALSE(table_.Find(before).has_value());
  EXPECT_NE(after, kRootNode);
}

TEST_F(InodeTableTest, ConcurrentLookupsAndForgetsLeaveNoNodes) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int round = 0; round < 2000; ++round) {
        auto number = static_cast<uint8_t>(round % 50);
        uint64_t node = table_.Remember(Handle(number), File(1), {kRootNode, "x"});
        attributes_.MarkChanged(node, start_);
        table_.Forget(node, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table_.size(), 1u);
}

}  // namespace
}  // namespace dafs::fuse
