// The latest name of a node, and until when the kernel may use it and others.
#include "fuse/cache/directories/inode_dentries.h"

#include <string>

#include "gtest/gtest.h"

namespace dafs::fuse {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);
absl::Time At(int milliseconds) { return kStart + absl::Milliseconds(milliseconds); }

DentryName In(std::string name) { return {1, std::move(name)}; }

class InodeDentriesTest : public ::testing::Test {
 protected:
  // The kernel receives `name` at `ms`, and may use it for a second.
  void Send(const std::string& name, uint64_t change, int ms = 0) {
    names_.FoundAt(In(name), At(ms));
    names_.Sent(In(name), change, At(ms + 1000));
  }
  // Empty: no name must be looked up.
  std::string NotSeenAt(uint64_t change, int ms) {
    const DentryName* dentry = names_.NotSeenAt(change, At(ms));
    return dentry != nullptr ? dentry->name : "";
  }
  InodeDentries names_;
};

TEST_F(InodeDentriesTest, ANameIsRevalidatedIfChangeDiffersAndTheKernelMayUseIt) {
  Send("a", 7);
  EXPECT_EQ(NotSeenAt(7, 10), "");
  EXPECT_EQ(NotSeenAt(8, 10), "a");
  EXPECT_EQ(NotSeenAt(8, 2000), "");
  names_.Confirm(In("a"), 8);
  EXPECT_EQ(NotSeenAt(8, 30), "");
  EXPECT_EQ(NotSeenAt(9, 999), "a");
  EXPECT_EQ(NotSeenAt(9, 1010), "") << "a lookup by the mount does not extend the kernel's time";
}

TEST_F(InodeDentriesTest, ANameThatTheKernelDidNotReceiveIsNotRevalidated) {
  names_.FoundAt(In("a"), At(0));
  EXPECT_EQ(names_.latest().name, "a");
  EXPECT_EQ(NotSeenAt(8, 10), "");
}

TEST_F(InodeDentriesTest, ALostNameCountsWhileTheKernelMayUseIt) {
  Send("a", 7);
  names_.Lose(In("b"));
  EXPECT_FALSE(names_.AnyLost(8, At(20)));
  names_.Lose(In("a"));
  EXPECT_EQ(NotSeenAt(8, 20), "");
  EXPECT_TRUE(names_.AnyLost(8, At(20)));
  EXPECT_FALSE(names_.AnyLost(8, At(1002))) << "the kernel no longer uses it";
  Send("a", 9, 30);
  EXPECT_FALSE(names_.AnyLost(9, At(40))) << "it leads to the node again";
}

TEST_F(InodeDentriesTest, OtherNamesCountAsLostOnceChangeDiffers) {
  Send("a", 7);
  Send("b", 7, 100);
  EXPECT_EQ(names_.latest().name, "b");
  EXPECT_FALSE(names_.AnyLost(7, At(200)));
  EXPECT_EQ(NotSeenAt(8, 200), "b");
  EXPECT_TRUE(names_.AnyLost(8, At(200)));
  EXPECT_FALSE(names_.AnyLost(8, At(1050))) << "the kernel no longer uses a";
  Send("c", 8, 1050);
  EXPECT_TRUE(names_.AnyLost(8, At(1060))) << "b was seen at another CHANGE";
  EXPECT_FALSE(names_.AnyLost(7, At(1060)));
  names_.DropOthers();
  EXPECT_FALSE(names_.AnyLost(8, At(1060)));
}

TEST_F(InodeDentriesTest, OtherNamesOfSeveralChangesCountAsLost) {
  Send("a", 7);
  Send("b", 8);
  Send("c", 9);
  for (const uint64_t change : {7u, 8u, 9u}) EXPECT_TRUE(names_.AnyLost(change, At(10)));
}

TEST_F(InodeDentriesTest, ANameThatWasLostStaysSoAmongOthers) {
  Send("a", 7);
  names_.Lose(In("a"));
  Send("b", 7);
  EXPECT_TRUE(names_.AnyLost(7, At(10)));
  EXPECT_EQ(NotSeenAt(7, 10), "");
}

TEST_F(InodeDentriesTest, TheLatestNameFollowsOwnRenames) {
  Send("a", 7);
  names_.Moved(In("x"), In("y"));
  EXPECT_EQ(names_.latest().name, "a");
  names_.Moved(In("a"), In("b"));
  EXPECT_EQ(NotSeenAt(7, 20), "b") << "another client may have renamed since";
  names_.Confirm(In("b"), 8);
  EXPECT_EQ(NotSeenAt(8, 30), "");
  EXPECT_EQ(NotSeenAt(9, 999), "b");
  EXPECT_EQ(NotSeenAt(9, 1010), "") << "it keeps the time of the old name";
}

TEST_F(InodeDentriesTest, ANameThatThisMountRemovedIsNotLost) {
  Send("a", 7);
  Send("b", 7);  // as git does: link(a, b) and unlink(a)
  names_.Removed(In("a"));
  EXPECT_FALSE(names_.AnyLost(8, At(10)));
  EXPECT_EQ(NotSeenAt(8, 10), "b");
  Send("c", 7);
  Send("d", 7);
  names_.Removed(In("b"));
  EXPECT_TRUE(names_.AnyLost(8, At(10))) << "c may have been used";
  names_.Removed(In("d"));
  EXPECT_EQ(NotSeenAt(8, 10), "");
}

}  // namespace
}  // namespace dafs::fuse
