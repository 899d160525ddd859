#include "fuse/cache/write_trackers.h"

#include <gtest/gtest.h>

#include <memory>

#include "client/state/data/write_tracker.h"
#include "tests/fuse/cache/node_fixture.h"

namespace dafs::fuse {
namespace {

using WriteTrackersTest = NodeFixture;

TEST_F(WriteTrackersTest, AForgottenFileKeepsTheErrorThatItsFsyncMustReport) {
  uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  std::shared_ptr<client::WriteTracker> writes = write_trackers_.Of(node);
  writes->NoteFailure(absl::UnknownError("committed after the last close"));
  EXPECT_TRUE(table_.Forget(node, 1).has_value());
  writes.reset();
  node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  writes = write_trackers_.Of(node);
  client::WriteTracker::ErrorCursor cursor = writes->SampleErrors();
  EXPECT_FALSE(writes->ErrorForFsync(cursor).ok());
  // The file keeps its tracker only while the tracker is in use.
  table_.Forget(node, 1);
  node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  EXPECT_EQ(write_trackers_.Of(node), writes);
  std::weak_ptr<client::WriteTracker> last = writes;
  writes.reset();
  table_.Forget(node, 1);
  EXPECT_TRUE(last.expired());
}

TEST_F(WriteTrackersTest, ForgetReturnsAFileThatWasOpened) {
  const uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  write_trackers_.Of(node);
  EXPECT_TRUE(table_.Forget(node, 1).has_value());
}

TEST_F(WriteTrackersTest, AllOpensOfAFileShareOneWriteTracker) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  auto first = write_trackers_.Of(node);
  EXPECT_EQ(first, write_trackers_.Of(node));
  EXPECT_NE(write_trackers_.Of(999999), nullptr);
}

}  // namespace
}  // namespace dafs::fuse
