#include "fuse/cache/inode_table.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fuse/cache/listing_walk.h"
#include "fuse/cache/questions_out.h"
#include "fuse/cache/stat_habit.h"

namespace dafs::fuse {
namespace {

wire::FileHandle Handle(uint8_t number) {
  wire::FileHandle handle;
  handle.fileid.bytes[0] = number;
  handle.fileid.bytes[1] = 1;
  return handle;
}

wire::FileAttributes File(uint64_t change, wire::ObjectType type = wire::ObjectType::kReg) {
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrObjectType | wire::kFattrChange | wire::kFattrFileId);
  attributes.object_type = type;
  attributes.change = change;
  attributes.file_id = 77;
  return attributes;
}

class InodeTableTest : public ::testing::Test {
 protected:
  InodeTableTest() { table_.SetRoot(Handle(0), File(1, wire::ObjectType::kDir)); }
  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
  InodeTable table_{CacheTimes()};
};

TEST_F(InodeTableTest, RootIsNodeOneAndIsNeverForgotten) {
  ASSERT_TRUE(table_.Find(kRootNode).has_value());
  EXPECT_EQ(table_.Find(kRootNode)->handle, Handle(0));
  table_.Forget(kRootNode, 1000);
  EXPECT_TRUE(table_.Find(kRootNode).has_value());
}

TEST_F(InodeTableTest, AForgottenFileKeepsTheErrorThatItsFsyncMustReport) {
  uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  std::shared_ptr<client::WriteTracker> writes = table_.WritesOf(node);
  writes->NoteFailure(absl::UnknownError("committed after the last close"));
  EXPECT_FALSE(table_.Forget(node, 1).has_value());
  writes.reset();
  node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  writes = table_.WritesOf(node);
  client::WriteTracker::ErrorCursor cursor = writes->SampleErrors();
  EXPECT_FALSE(writes->ErrorForFsync(cursor).ok());
  // The file keeps its tracker only while the tracker is in use.
  table_.Forget(node, 1);
  node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  EXPECT_EQ(table_.WritesOf(node), writes);
  std::weak_ptr<client::WriteTracker> last = writes;
  writes.reset();
  table_.Forget(node, 1);
  EXPECT_TRUE(last.expired());
}

TEST_F(InodeTableTest, ForgetReturnsAFileWithUncommittedData) {
  uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  client::WriteResult unstable;
  unstable.count = 1;
  unstable.committed = wire::StableHow::kUnstable;
  table_.WritesOf(node)->NoteWrite(unstable);
  const std::optional<InodeTable::Gone> gone = table_.Forget(node, 1);
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->handle, Handle(5));
  EXPECT_TRUE(gone->writes->uncommitted());
}

TEST_F(InodeTableTest, PagesAreCurrentOnlyAtTheChangeThatWasRecordedForThem) {
  uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  table_.Told(node, File(7), start_);
  EXPECT_FALSE(table_.PagesAreCurrent(node, 7));  // sending attributes does not make pages current
  table_.PagesAre(node, 7);
  EXPECT_TRUE(table_.PagesAreCurrent(node, 7));
  EXPECT_FALSE(table_.PagesAreCurrent(node, 8));
  table_.Told(node, File(8), start_);
  EXPECT_FALSE(table_.PagesAreCurrent(node, 8));
  table_.PagesAre(99, 8);  // unknown: ignored
  EXPECT_FALSE(table_.PagesAreCurrent(99, 8));
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
    EXPECT_EQ(table_.PlaceOf(nodes[i]).name, std::to_string(i));
  }
  EXPECT_FALSE(table_.Find(nodes[100]).has_value());
}

TEST_F(InodeTableTest, AChangeReportsWhetherTheKernelShowsSetIdBits) {
  const uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  wire::FileAttributes attributes = File(7);
  attributes.set(wire::kFattrMode);
  attributes.mode = 0777;
  table_.Told(node, attributes, start_);
  EXPECT_FALSE(table_.Touch(node, start_));
  attributes.mode = 02777;
  table_.Told(node, attributes, start_);
  EXPECT_TRUE(table_.Touch(node, start_));
  InodeTable::Change change = table_.BeginChange(node, start_);
  EXPECT_TRUE(change.shows_set_id);
  table_.KernelForgot(node);
  EXPECT_FALSE(table_.EndChange(node, change, {}, start_));
  change = table_.BeginChange(node, start_);
  EXPECT_FALSE(change.shows_set_id);
  table_.Told(node, attributes, start_);  // requested during the change
  EXPECT_TRUE(table_.EndChange(node, change, {}, start_));
}

TEST_F(InodeTableTest, AHandleHasOneNodeUnderAllItsNames) {
  uint64_t first = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  uint64_t second = table_.Remember(Handle(5), File(1), {kRootNode, "b"});
  EXPECT_EQ(first, second);
  EXPECT_EQ(table_.NodeOf(Handle(5)), first);
  EXPECT_EQ(table_.PlaceOf(first).name, "b");
  EXPECT_EQ(table_.Find(first)->file_id, 77u);
  EXPECT_EQ(table_.Find(first)->type, wire::ObjectType::kReg);
}

// If the kernel cannot move a directory, it repeats the lookup: it holds the lock of renames then.
TEST_F(InodeTableTest, ADirectoryThatTheKernelCannotMoveGetsANewNode) {
  const wire::FileAttributes directory = File(1, wire::ObjectType::kDir);
  const absl::Duration soon = absl::Milliseconds(1);
  auto look = [&](const Place& place, uint32_t thread, absl::Duration when) {
    return table_.Remember(Handle(5), directory, place, {thread, start_ + when});
  };
  const Place first{kRootNode, "d"};
  const Place second{77, "d"};
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
  EXPECT_EQ(table_.PlaceOf(other).parent, kRootNode);
  EXPECT_EQ(look(first, 3, absl::Seconds(20) + soon), other);
  // The old node is removed with its last lookup. The new node stays.
  EXPECT_TRUE(table_.Find(node).has_value());
  table_.Forget(node, 100);
  EXPECT_FALSE(table_.Find(node).has_value());
  EXPECT_EQ(table_.NodeOf(Handle(5)), other);
  table_.Forget(other, 2);
  EXPECT_EQ(table_.NodeOf(Handle(5)), 0u);
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

TEST_F(InodeTableTest, AttributesAfterAChangeServeOneRequestWithinTheCacheTime) {
  InodeTable::Change change = table_.BeginChange(kRootNode, start_);
  EXPECT_FALSE(table_.TakeFresh(kRootNode, start_).has_value());
  table_.EndChange(kRootNode, change, File(7, wire::ObjectType::kDir), start_);
  std::optional<InodeTable::Fresh> fresh = table_.TakeFresh(kRootNode, start_ + absl::Seconds(10));
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(fresh->attributes.change, 7u);
  EXPECT_EQ(fresh->valid_for, absl::Seconds(20));
  EXPECT_TRUE(table_.KernelIsCurrent(kRootNode, 7));
  EXPECT_FALSE(table_.TakeFresh(kRootNode, start_ + absl::Seconds(10)).has_value());
  change = table_.BeginChange(kRootNode, start_);
  table_.EndChange(kRootNode, change, File(8, wire::ObjectType::kDir), start_);
  EXPECT_FALSE(table_.TakeFresh(kRootNode, start_ + absl::Seconds(30)).has_value());
}

// It is unknown which attributes are newer.
TEST_F(InodeTableTest, AttributesAfterConcurrentChangesAreNotUsed) {
  InodeTable::Change first = table_.BeginChange(kRootNode, start_);
  InodeTable::Change second = table_.BeginChange(kRootNode, start_);
  table_.EndChange(kRootNode, first, File(7, wire::ObjectType::kDir), start_);
  EXPECT_FALSE(table_.TakeFresh(kRootNode, start_).has_value());
  table_.EndChange(kRootNode, second, File(8, wire::ObjectType::kDir), start_);
  EXPECT_FALSE(table_.TakeFresh(kRootNode, start_).has_value());
  InodeTable::Change third = table_.BeginChange(kRootNode, start_);
  table_.EndChange(kRootNode, third, File(9, wire::ObjectType::kDir), start_);
  table_.Told(kRootNode, File(10, wire::ObjectType::kDir), start_);
  EXPECT_FALSE(table_.TakeFresh(kRootNode, start_).has_value());  // the kernel has newer ones
}

TEST_F(InodeTableTest, AttributesFromAnOpenServeOneRequestWithin100ms) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  table_.KeepFresh(node, table_.MomentOf(node), File(7), start_);
  std::optional<InodeTable::Fresh> fresh = table_.TakeFresh(node, start_ + absl::Milliseconds(20));
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(fresh->attributes.change, 7u);
  EXPECT_EQ(fresh->valid_for, absl::Seconds(3) - absl::Milliseconds(20));
  EXPECT_FALSE(fresh->of_change);
  EXPECT_TRUE(table_.KernelIsCurrent(node, 7));
  EXPECT_FALSE(table_.TakeFresh(node, start_).has_value());
  table_.KeepFresh(node, table_.MomentOf(node), File(8), start_ + absl::Seconds(1));
  EXPECT_FALSE(
      table_.TakeFresh(node, start_ + absl::Seconds(1) + InodeTable::kFreshFileFor).has_value());
}

TEST_F(InodeTableTest, AttributesFromAnOpenAreNotUsedAfterAnyLaterEvent) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  const InodeTable::Moment asked = table_.MomentOf(node);
  table_.Touch(node, start_);
  table_.KeepFresh(node, asked, File(7), start_);
  EXPECT_FALSE(table_.TakeFresh(node, start_).has_value()) << "changed before the reply";
  table_.KeepFresh(node, table_.MomentOf(node), File(7), start_);
  table_.Touch(node, start_);
  EXPECT_FALSE(table_.TakeFresh(node, start_).has_value()) << "changed after the reply";
  table_.KeepFresh(node, table_.MomentOf(node), File(7), start_);
  table_.DropFresh(node);
  EXPECT_FALSE(table_.TakeFresh(node, start_).has_value()) << "a file was read";
  table_.KeepFresh(node, table_.MomentOf(node), File(7), start_);
  table_.NameRemoved();
  EXPECT_FALSE(table_.TakeFresh(node, start_).has_value()) << "an unlink, possibly of this file";
  table_.Told(node, File(8), start_);
  table_.KeepFresh(node, table_.MomentOf(node), File(7), start_);
  EXPECT_FALSE(table_.TakeFresh(node, start_).has_value())
      << "the kernel has received newer attributes";
}

TEST_F(InodeTableTest, KeptAttributesOfADirectoryExpireWhenAnyDirectoryIsRemoved) {
  const wire::FileAttributes attributes = File(7, wire::ObjectType::kDir);
  const uint64_t node = table_.Remember(Handle(5), attributes, {kRootNode, "d"});
  auto kept = [&] { return table_.TakeFresh(node, start_ + absl::Seconds(1)).has_value(); };
  table_.KeepFresh(node, table_.MomentOf(node), attributes, start_);
  table_.NameRemoved();
  EXPECT_TRUE(kept()) << "the removed name was that of a file";
  table_.KeepFresh(node, table_.MomentOf(node), attributes, start_ + absl::Milliseconds(1));
  table_.DirectoryRemoved();
  EXPECT_FALSE(kept()) << "possibly this directory";
  // Removing a subdirectory counts twice; attributes taken after that are valid.
  for (uint64_t others : {uint64_t{0}, uint64_t{1}}) {
    InodeTable::Change change = table_.BeginChange(node, start_ + absl::Milliseconds(2));
    for (uint64_t i = 0; i < 2 + others; ++i) table_.DirectoryRemoved();
    table_.EndChange(node, change, attributes, start_ + absl::Milliseconds(3), 2);
    EXPECT_EQ(kept(), others == 0);
  }
}

TEST_F(InodeTableTest, AttributesKeptForOneThreadServeNoOther) {
  const wire::FileAttributes attributes = File(7, wire::ObjectType::kDir);
  const uint64_t node = table_.Remember(Handle(5), attributes, {kRootNode, "d"});
  table_.KeepFresh(node, table_.MomentOf(node), attributes, start_, 12);
  EXPECT_FALSE(table_.TakeFresh(node, start_, {.thread = 13}).has_value());
  EXPECT_TRUE(table_.TakeFresh(node, start_, {.thread = 12}).has_value());
  table_.KeepFresh(node, table_.MomentOf(node), attributes, start_ + absl::Seconds(1), 12);
  EXPECT_FALSE(table_.TakeFresh(node, start_ + absl::Seconds(2), {.thread = 12}).has_value())
      << "expired";
}

// Replies to two opens may arrive in another order than their requests were sent.
TEST_F(InodeTableTest, OfTwoOpensTheAttributesOfTheLaterRequestAreUsed) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  const InodeTable::Moment asked = table_.MomentOf(node);
  table_.KeepFresh(node, asked, File(8), start_ + absl::Milliseconds(10));
  table_.KeepFresh(node, asked, File(7), start_);
  std::optional<InodeTable::Fresh> fresh = table_.TakeFresh(node, start_ + absl::Milliseconds(20));
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(fresh->attributes.change, 8u);
}

TEST_F(InodeTableTest, AttributesAfterAWriteAreUsedUnlessAnotherChangeOverlapped) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  EXPECT_FALSE(table_.ChangedUntold(node));
  InodeTable::Change write = table_.BeginChange(node, start_);
  table_.EndChange(node, write, wire::FileAttributes(), start_);
  EXPECT_TRUE(table_.ChangedUntold(node));
  write = table_.BeginChange(node, start_);
  table_.EndChange(node, write, File(7), start_);
  std::optional<InodeTable::Fresh> fresh = table_.TakeFresh(node, start_);
  ASSERT_TRUE(fresh.has_value());
  EXPECT_TRUE(fresh->of_change);
  EXPECT_FALSE(table_.ChangedUntold(node));
  write = table_.BeginChange(node, start_);
  table_.Touch(node, start_);  // a chmod
  table_.EndChange(node, write, File(8), start_);
  EXPECT_FALSE(table_.TakeFresh(node, start_).has_value());
}

// A LINK changes the file too, and its reply sends the new attributes to the kernel.
TEST_F(InodeTableTest, AttributesAfterAWriteAreNotUsedIfOthersWereSentMeanwhile) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  table_.Told(node, File(1), start_);
  InodeTable::Change write = table_.BeginChange(node, start_ + absl::Milliseconds(1));
  table_.Told(node, File(8), start_ + absl::Milliseconds(2));
  table_.EndChange(node, write, File(7), start_ + absl::Milliseconds(3));
  EXPECT_FALSE(table_.TakeFresh(node, start_ + absl::Milliseconds(4)).has_value());
  write = table_.BeginChange(node, start_ + absl::Milliseconds(5));
  table_.EndChange(node, write, File(9), start_ + absl::Milliseconds(6));
  EXPECT_TRUE(table_.TakeFresh(node, start_ + absl::Milliseconds(7)).has_value());
}

TEST_F(InodeTableTest, ANodeKnowsItsSuccessorInTheListing) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  EXPECT_EQ(table_.NextListed(node), 0u);
  table_.ListedBehind(node, 99);
  EXPECT_EQ(table_.NextListed(node), 99u);
  EXPECT_EQ(table_.NextListed(98), 0u);
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
  dat::Pending<bool>* pending = out.Await(1);
  ASSERT_EQ(pending, &first.ended);
  EXPECT_EQ(out.Await(1), nullptr) << "another caller waits already";
  bool resumed = false;
  dat::Start([](dat::Pending<bool>& ended, bool& done) -> dat::Task<void> {
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

TEST(StatHabit, AttributesAreRequestedWithWritesWhileProgramsUseThem) {
  StatHabit habit;
  EXPECT_FALSE(habit.Expected());
  for (int i = 0; i < 100; ++i) habit.Asked();
  int writes = 0;
  for (; habit.Expected() && writes < 100; ++writes) habit.Paid();
  EXPECT_EQ(writes, 16);
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

TEST_F(InodeTableTest, ALinkIsFoundAgainWhileItsCachedAttributesAreValid) {
  const uint64_t node =
      table_.Remember(Handle(5), File(7, wire::ObjectType::kLnk), {kRootNode, "a"});
  EXPECT_FALSE(table_.LookUpAgain(node, start_).has_value());
  const absl::Duration good = table_.Told(node, File(7, wire::ObjectType::kLnk), start_);
  const auto again = table_.LookUpAgain(node, start_ + absl::Seconds(1));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->valid_for, good - absl::Seconds(1));
  EXPECT_EQ(again->attributes.change, 7u);
  EXPECT_FALSE(table_.LookUpAgain(node, start_ + good).has_value());
  table_.Forget(node, 1);
  EXPECT_TRUE(table_.Find(node).has_value());  // LookUpAgain has counted a second lookup
  table_.NotTold(node);
  EXPECT_FALSE(table_.LookUpAgain(node, start_).has_value());
  table_.Told(node, File(7, wire::ObjectType::kLnk), start_);
  table_.Touch(node, start_ + absl::Seconds(1));
  EXPECT_FALSE(table_.LookUpAgain(node, start_ + absl::Seconds(1)).has_value());
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

TEST_F(InodeTableTest, CacheTimeDoublesWhileUnchangedAndIsResetByAChange) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  absl::Time now = start_;
  EXPECT_EQ(table_.Told(node, File(1), now), absl::Seconds(3));
  // A request before the time has expired does not double it.
  EXPECT_EQ(table_.Told(node, File(1), now + absl::Seconds(1)), absl::Seconds(3));
  now += absl::Seconds(10);
  EXPECT_EQ(table_.Told(node, File(1), now), absl::Seconds(6));
  for (absl::Duration expected : {absl::Seconds(12), absl::Seconds(24), absl::Seconds(48),
                                  absl::Seconds(60), absl::Seconds(60)}) {
    now += absl::Minutes(2);
    EXPECT_EQ(table_.Told(node, File(1), now), expected);
  }
  EXPECT_EQ(table_.Told(node, File(2), now + absl::Minutes(2)), absl::Seconds(3));
}

TEST_F(InodeTableTest, DirectoriesHaveTheirOwnCacheTimes) {
  EXPECT_EQ(table_.Told(kRootNode, File(1, wire::ObjectType::kDir), start_), absl::Seconds(30));
}

TEST_F(InodeTableTest, LastSentAttributesAreKeptForDirectoriesOnly) {
  uint64_t directory = table_.Remember(Handle(5), File(1), {kRootNode, "d"});
  EXPECT_FALSE(table_.LastToldOfDirectory(directory).has_value());
  for (uint64_t change : {1u, 2u}) {
    table_.Told(directory, File(change, wire::ObjectType::kDir), start_);
    ASSERT_TRUE(table_.LastToldOfDirectory(directory).has_value());
    EXPECT_EQ(table_.LastToldOfDirectory(directory)->change, change);
  }
  uint64_t file = table_.Remember(Handle(6), File(1), {kRootNode, "f"});
  table_.Told(file, File(1), start_);
  EXPECT_FALSE(table_.LastToldOfDirectory(file).has_value());
  EXPECT_FALSE(table_.LastToldOfDirectory(99).has_value());
}

TEST_F(InodeTableTest, NamesOfAFileAreTrackedWithItsChange) {
  const uint64_t node = table_.Remember(Handle(1), File(1), {kRootNode, "a"});
  table_.NameTold(node, {kRootNode, "a"}, 1, start_, start_ + absl::Seconds(10));
  auto later = [this](int seconds) { return start_ + absl::Seconds(seconds); };
  EXPECT_TRUE(table_.NamesNotSeenAt(node, 1, later(1)).empty());
  EXPECT_EQ(table_.NamesNotSeenAt(node, 2, later(1)), (Places{{kRootNode, "a"}}));
  EXPECT_TRUE(table_.NamesLikelyOld(node, later(1)).empty());
  table_.Touch(node, later(1));
  EXPECT_EQ(table_.NamesLikelyOld(node, later(2)), (Places{{kRootNode, "a"}}));
  table_.ConfirmName(node, {kRootNode, "a"}, 2, later(2));
  EXPECT_TRUE(table_.NamesLikelyOld(node, later(3)).empty());
  table_.own_moves().Moved({kRootNode, "a"}, {kRootNode, "b"}, false, later(3));
  EXPECT_EQ(table_.NamesLikelyOld(node, later(4)), (Places{{kRootNode, "b"}}));
  EXPECT_FALSE(table_.AnyNameLost(node, 2, later(4)));
  table_.LoseName(node, {kRootNode, "b"});
  EXPECT_TRUE(table_.AnyNameLost(node, 2, later(4)));
  EXPECT_FALSE(table_.AnyNameLost(999999, 2, later(4)));
}

// The kernel discards attributes that it requested before it accepted others.
TEST_F(InodeTableTest, AttributesSentToTwoThreadsAtOnceDoNotCountAsAccepted) {
  const uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  auto told = [&](uint64_t change, uint32_t thread, int arrived_ms, int ms) {
    table_.Told(node, File(change), start_ + absl::Milliseconds(ms),
                {thread, start_ + absl::Milliseconds(arrived_ms)});
    return table_.KernelIsCurrent(node, change);
  };
  EXPECT_TRUE(told(1, 12, 0, 1));
  EXPECT_TRUE(told(1, 13, 0, 2)) << "both threads received the same";
  EXPECT_TRUE(told(2, 13, 3, 4)) << "the same thread has accepted its earlier reply";
  EXPECT_FALSE(told(3, 12, 3, 5)) << "12 may have asked before 13 accepted its reply";
  EXPECT_FALSE(told(3, 12, 6, 7));
  const int behind = 4 + static_cast<int>(absl::ToInt64Milliseconds(InodeTable::kTaken));
  EXPECT_FALSE(told(3, 14, behind - 1, behind + 5));
  EXPECT_TRUE(told(3, 14, behind, behind + 6)) << "it has asked after both replies were accepted";
  EXPECT_FALSE(told(4, 12, behind + 7, behind + 8));
  table_.KernelForgot(node);
  EXPECT_TRUE(told(4, 12, behind + 9, behind + 10)) << "the kernel accepts no earlier reply";
}

TEST_F(InodeTableTest, KernelIsCurrentOnlyAtTheChangeLastSent) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  EXPECT_FALSE(table_.KernelIsCurrent(node, 1));  // none was sent
  table_.Told(node, File(1), start_);
  EXPECT_TRUE(table_.KernelIsCurrent(node, 1));
  EXPECT_FALSE(table_.KernelIsCurrent(node, 2));
  table_.NotTold(node);
  EXPECT_FALSE(table_.KernelIsCurrent(node, 1));
  EXPECT_FALSE(table_.KernelIsCurrent(999999, 1));
}

TEST_F(InodeTableTest, NewsSinceCoversSentAttributesAndOwnChanges) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  EXPECT_FALSE(table_.NewsSince(node, start_));
  table_.Told(node, File(1), start_);
  EXPECT_TRUE(table_.NewsSince(node, start_));
  EXPECT_FALSE(table_.TouchedSince(node, start_));
  EXPECT_FALSE(table_.NewsSince(node, start_ + absl::Seconds(1)));
  table_.Touch(node, start_ + absl::Seconds(2));
  EXPECT_TRUE(table_.TouchedSince(node, start_ + absl::Seconds(1)));
  EXPECT_TRUE(table_.NewsSince(node, start_ + absl::Seconds(2)));
  EXPECT_FALSE(table_.NewsSince(999999, start_));
}

TEST_F(InodeTableTest, AllOpensOfAFileShareOneWriteTracker) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  auto first = table_.WritesOf(node);
  EXPECT_EQ(first, table_.WritesOf(node));
  EXPECT_NE(table_.WritesOf(999999), nullptr);
}

TEST_F(InodeTableTest, ConcurrentLookupsAndForgetsLeaveNoNodes) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int round = 0; round < 2000; ++round) {
        auto number = static_cast<uint8_t>(round % 50);
        uint64_t node = table_.Remember(Handle(number), File(1), {kRootNode, "x"});
        table_.Touch(node, start_);
        table_.Forget(node, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table_.size(), 1u);
}

}  // namespace
}  // namespace dafs::fuse
