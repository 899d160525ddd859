#include "fuse/cache/attribute_cache.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/fuse/cache/node_fixture.h"

namespace dafs::fuse {
namespace {

using AttributeCacheTest = NodeFixture;

TEST_F(AttributeCacheTest, AChangeReportsWhetherTheKernelShowsSetIdBits) {
  const uint64_t node = table_.Remember(Handle(5), File(7), {kRootNode, "a"});
  client::Attributes attributes = File(7);
  attributes.set(wire::kFattrMode);
  attributes.mode = 0777;
  attributes_.Sent(node, attributes, start_);
  EXPECT_FALSE(attributes_.MarkChanged(node, start_));
  attributes.mode = 02777;
  attributes_.Sent(node, attributes, start_);
  EXPECT_TRUE(attributes_.MarkChanged(node, start_));
  OwnChanges::Change change = attributes_.BeginChange(node, start_);
  EXPECT_TRUE(change.shows_set_id);
  attributes_.Invalidated(node);
  EXPECT_FALSE(attributes_.EndChange(node, change, {}, start_));
  change = attributes_.BeginChange(node, start_);
  EXPECT_FALSE(change.shows_set_id);
  attributes_.Sent(node, attributes, start_);  // requested during the change
  EXPECT_TRUE(attributes_.EndChange(node, change, {}, start_));
}

TEST_F(AttributeCacheTest, AttributesAfterAChangeServeOneRequestWithinTheCacheTime) {
  OwnChanges::Change change = attributes_.BeginChange(kRootNode, start_);
  EXPECT_FALSE(attributes_.TakePrefetched(kRootNode, start_).has_value());
  attributes_.EndChange(kRootNode, change, File(7, wire::ObjectType::kDir), start_);
  std::optional<AttributeCache::Prefetched> fresh =
      attributes_.TakePrefetched(kRootNode, start_ + absl::Seconds(10));
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(fresh->attributes.change, 7u);
  EXPECT_EQ(fresh->valid_for, absl::Seconds(20));
  EXPECT_TRUE(attributes_.KernelIsCurrent(kRootNode, 7));
  EXPECT_FALSE(attributes_.TakePrefetched(kRootNode, start_ + absl::Seconds(10)).has_value());
  change = attributes_.BeginChange(kRootNode, start_);
  attributes_.EndChange(kRootNode, change, File(8, wire::ObjectType::kDir), start_);
  EXPECT_FALSE(attributes_.TakePrefetched(kRootNode, start_ + absl::Seconds(30)).has_value());
}

// It is unknown which attributes are newer.
TEST_F(AttributeCacheTest, AttributesAfterConcurrentChangesAreNotUsed) {
  OwnChanges::Change first = attributes_.BeginChange(kRootNode, start_);
  OwnChanges::Change second = attributes_.BeginChange(kRootNode, start_);
  attributes_.EndChange(kRootNode, first, File(7, wire::ObjectType::kDir), start_);
  EXPECT_FALSE(attributes_.TakePrefetched(kRootNode, start_).has_value());
  attributes_.EndChange(kRootNode, second, File(8, wire::ObjectType::kDir), start_);
  EXPECT_FALSE(attributes_.TakePrefetched(kRootNode, start_).has_value());
  OwnChanges::Change third = attributes_.BeginChange(kRootNode, start_);
  attributes_.EndChange(kRootNode, third, File(9, wire::ObjectType::kDir), start_);
  attributes_.Sent(kRootNode, File(10, wire::ObjectType::kDir), start_);
  EXPECT_FALSE(
      attributes_.TakePrefetched(kRootNode, start_).has_value());  // the kernel has newer ones
}

TEST_F(AttributeCacheTest, AttributesFromAnOpenServeOneRequestWithinTheCacheTime) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  attributes_.KeepPrefetched(node, attributes_.MomentOf(node), File(7), start_);
  std::optional<AttributeCache::Prefetched> fresh =
      attributes_.TakePrefetched(node, start_ + absl::Milliseconds(20));
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(fresh->attributes.change, 7u);
  EXPECT_EQ(fresh->valid_for, absl::Seconds(3) - absl::Milliseconds(20));
  EXPECT_TRUE(attributes_.KernelIsCurrent(node, 7));
  EXPECT_FALSE(attributes_.TakePrefetched(node, start_).has_value());
  attributes_.KeepPrefetched(node, attributes_.MomentOf(node), File(8), start_ + absl::Seconds(1));
  EXPECT_FALSE(attributes_.TakePrefetched(node, start_ + absl::Seconds(1) + CacheTimes().reg_min)
                   .has_value());
}

TEST_F(AttributeCacheTest, AttributesFromAnOpenAreNotUsedAfterAnyLaterEvent) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  const OwnChanges::Moment asked = attributes_.MomentOf(node);
  attributes_.MarkChanged(node, start_);
  attributes_.KeepPrefetched(node, asked, File(7), start_);
  EXPECT_FALSE(attributes_.TakePrefetched(node, start_).has_value()) << "changed before the reply";
  attributes_.KeepPrefetched(node, attributes_.MomentOf(node), File(7), start_);
  attributes_.MarkChanged(node, start_);
  EXPECT_FALSE(attributes_.TakePrefetched(node, start_).has_value()) << "changed after the reply";
  attributes_.KeepPrefetched(node, attributes_.MomentOf(node), File(7), start_);
  attributes_.InvalidatePrefetched(node);
  EXPECT_FALSE(attributes_.TakePrefetched(node, start_).has_value()) << "a file was read";
  attributes_.KeepPrefetched(node, attributes_.MomentOf(node), File(7), start_);
  attributes_.NameRemoved();
  EXPECT_FALSE(attributes_.TakePrefetched(node, start_).has_value())
      << "an unlink, possibly of this file";
  attributes_.Sent(node, File(8), start_);
  attributes_.KeepPrefetched(node, attributes_.MomentOf(node), File(7), start_);
  EXPECT_FALSE(attributes_.TakePrefetched(node, start_).has_value())
      << "the kernel has received newer attributes";
}

TEST_F(AttributeCacheTest, KeptAttributesOfADirectoryExpireWhenAnyDirectoryIsRemoved) {
  const client::Attributes attributes = File(7, wire::ObjectType::kDir);
  const uint64_t node = table_.Remember(Handle(5), attributes, {kRootNode, "d"});
  auto kept = [&] {
    return attributes_.TakePrefetched(node, start_ + absl::Seconds(1)).has_value();
  };
  attributes_.KeepPrefetched(node, attributes_.MomentOf(node), attributes, start_);
  attributes_.NameRemoved();
  EXPECT_TRUE(kept()) << "the removed name was that of a file";
  attributes_.KeepPrefetched(node, attributes_.MomentOf(node), attributes,
                             start_ + absl::Milliseconds(1));
  attributes_.DirectoryRemoved();
  EXPECT_FALSE(kept()) << "possibly this directory";
  // Removing a subdirectory counts twice; attributes taken after that are valid.
  for (uint64_t others : {uint64_t{0}, uint64_t{1}}) {
    OwnChanges::Change change = attributes_.BeginChange(node, start_ + absl::Milliseconds(2));
    for (uint64_t i = 0; i < 2 + others; ++i) attributes_.DirectoryRemoved();
    attributes_.EndChange(node, change, attributes, start_ + absl::Milliseconds(3), 2);
    EXPECT_EQ(kept(), others == 0);
  }
}

// Replies to two opens may arrive in another order than their requests were sent.
TEST_F(AttributeCacheTest, OfTwoOpensTheAttributesOfTheLaterRequestAreUsed) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  const OwnChanges::Moment asked = attributes_.MomentOf(node);
  attributes_.KeepPrefetched(node, asked, File(8), start_ + absl::Milliseconds(10));
  attributes_.KeepPrefetched(node, asked, File(7), start_);
  std::optional<AttributeCache::Prefetched> fresh =
      attributes_.TakePrefetched(node, start_ + absl::Milliseconds(20));
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(fresh->attributes.change, 8u);
}

TEST_F(AttributeCacheTest, AttributesAfterAWriteAreUsedUnlessAnotherChangeOverlapped) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  OwnChanges::Change write = attributes_.BeginChange(node, start_);
  attributes_.EndChange(node, write, File(7), start_);
  EXPECT_TRUE(attributes_.TakePrefetched(node, start_).has_value());
  write = attributes_.BeginChange(node, start_);
  attributes_.MarkChanged(node, start_);  // a chmod
  attributes_.EndChange(node, write, File(8), start_);
  EXPECT_FALSE(attributes_.TakePrefetched(node, start_).has_value());
}

// A LINK changes the file too, and its reply sends the new attributes to the kernel.
TEST_F(AttributeCacheTest, AttributesAfterAWriteAreNotUsedIfOthersWereSentMeanwhile) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  attributes_.Sent(node, File(1), start_);
  OwnChanges::Change write = attributes_.BeginChange(node, start_ + absl::Milliseconds(1));
  attributes_.Sent(node, File(8), start_ + absl::Milliseconds(2));
  attributes_.EndChange(node, write, File(7), start_ + absl::Milliseconds(3));
  EXPECT_FALSE(attributes_.TakePrefetched(node, start_ + absl::Milliseconds(4)).has_value());
  write = attributes_.BeginChange(node, start_ + absl::Milliseconds(5));
  attributes_.EndChange(node, write, File(9), start_ + absl::Milliseconds(6));
  EXPECT_TRUE(attributes_.TakePrefetched(node, start_ + absl::Milliseconds(7)).has_value());
}

TEST_F(AttributeCacheTest, CacheTimeDoublesWhileUnchangedAndIsResetByAChange) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  absl::Time now = start_;
  EXPECT_EQ(attributes_.Sent(node, File(1), now), absl::Seconds(3));
  // A request before the time has expired does not double it.
  EXPECT_EQ(attributes_.Sent(node, File(1), now + absl::Seconds(1)), absl::Seconds(3));
  now += absl::Seconds(10);
  EXPECT_EQ(attributes_.Sent(node, File(1), now), absl::Seconds(6));
  for (absl::Duration expected : {absl::Seconds(12), absl::Seconds(24), absl::Seconds(48),
                                  absl::Seconds(60), absl::Seconds(60)}) {
    now += absl::Minutes(2);
    EXPECT_EQ(attributes_.Sent(node, File(1), now), expected);
  }
  EXPECT_EQ(attributes_.Sent(node, File(2), now + absl::Minutes(2)), absl::Seconds(3));
}

TEST_F(AttributeCacheTest, DirectoriesHaveTheirOwnCacheTimes) {
  EXPECT_EQ(attributes_.Sent(kRootNode, File(1, wire::ObjectType::kDir), start_),
            absl::Seconds(30));
}

TEST_F(AttributeCacheTest, LastSentAttributesAreKeptForDirectoriesOnly) {
  uint64_t directory = table_.Remember(Handle(5), File(1), {kRootNode, "d"});
  EXPECT_FALSE(attributes_.LastOfDirectory(directory).has_value());
  for (uint64_t change : {1u, 2u}) {
    attributes_.Sent(directory, File(change, wire::ObjectType::kDir), start_);
    ASSERT_TRUE(attributes_.LastOfDirectory(directory).has_value());
    EXPECT_EQ(attributes_.LastOfDirectory(directory)->change, change);
  }
  uint64_t file = table_.Remember(Handle(6), File(1), {kRootNode, "f"});
  attributes_.Sent(file, File(1), start_);
  EXPECT_FALSE(attributes_.LastOfDirectory(file).has_value());
  EXPECT_FALSE(attributes_.LastOfDirectory(99).has_value());
}

TEST_F(AttributeCacheTest, LearnedAttributesDoNotReplaceThoseKeptForTheKernel) {
  ASSERT_TRUE(attributes_.LastOfDirectory(kRootNode).has_value()) << "from SetRoot";
  attributes_.Learn(kRootNode, File(6, wire::ObjectType::kDir));
  EXPECT_EQ(attributes_.LastOfDirectory(kRootNode)->change, 6u);
  EXPECT_FALSE(attributes_.TakePrefetched(kRootNode, start_).has_value());
  EXPECT_FALSE(attributes_.KernelIsCurrent(kRootNode, 6)) << "not sent";
  const OwnChanges::Change change = attributes_.BeginChange(kRootNode, start_);
  attributes_.EndChange(kRootNode, change, File(8, wire::ObjectType::kDir), start_);
  attributes_.Learn(kRootNode, File(7, wire::ObjectType::kDir));  // a reply from before the change
  EXPECT_EQ(attributes_.TakePrefetched(kRootNode, start_)->attributes.change, 8u);
}

TEST_F(AttributeCacheTest, LastAttributesOfADirectoryOutlastAChangeThatMadeThemStale) {
  OwnChanges::Change change = attributes_.BeginChange(kRootNode, start_);
  attributes_.EndChange(kRootNode, change, File(7, wire::ObjectType::kDir), start_);
  attributes_.MarkChanged(kRootNode, start_);
  EXPECT_FALSE(attributes_.TakePrefetched(kRootNode, start_).has_value());
  ASSERT_TRUE(attributes_.LastOfDirectory(kRootNode).has_value());
  EXPECT_EQ(attributes_.LastOfDirectory(kRootNode)->change, 7u);
}

// The kernel discards attributes that it requested before it accepted others.
TEST_F(AttributeCacheTest, AttributesSentToTwoThreadsAtOnceDoNotCountAsAccepted) {
  const uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  auto is_current = [&](uint64_t change, int arrived_ms, int ms) {
    attributes_.Sent(node, File(change), start_ + absl::Milliseconds(ms),
                     start_ + absl::Milliseconds(arrived_ms));
    return attributes_.KernelIsCurrent(node, change);
  };
  EXPECT_TRUE(is_current(1, 0, 1));
  EXPECT_TRUE(is_current(1, 0, 2)) << "both threads received the same";
  EXPECT_FALSE(is_current(3, 3, 5)) << "one may have asked before the other accepted its reply";
  EXPECT_FALSE(is_current(3, 6, 7));
  const int taken = 2 + static_cast<int>(absl::ToInt64Milliseconds(KernelView::kTaken));
  EXPECT_FALSE(is_current(3, taken - 1, taken + 5));
  EXPECT_TRUE(is_current(3, taken, taken + 6)) << "asked after both replies were accepted";
  EXPECT_FALSE(is_current(4, taken + 7, taken + 8));
  attributes_.Invalidated(node);
  EXPECT_TRUE(is_current(4, taken + 9, taken + 10)) << "the kernel accepts no earlier reply";
}

TEST_F(AttributeCacheTest, KernelIsCurrentOnlyAtTheChangeLastSent) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  EXPECT_FALSE(attributes_.KernelIsCurrent(node, 1));  // none was sent
  attributes_.Sent(node, File(1), start_);
  EXPECT_TRUE(attributes_.KernelIsCurrent(node, 1));
  EXPECT_FALSE(attributes_.KernelIsCurrent(node, 2));
  attributes_.NotAccepted(node);
  EXPECT_FALSE(attributes_.KernelIsCurrent(node, 1));
  EXPECT_FALSE(attributes_.KernelIsCurrent(999999, 1));
}

TEST_F(AttributeCacheTest, NewsSinceCoversSentAttributesAndOwnChanges) {
  uint64_t node = table_.Remember(Handle(5), File(1), {kRootNode, "a"});
  EXPECT_FALSE(attributes_.NewsSince(node, start_));
  attributes_.Sent(node, File(1), start_);
  EXPECT_TRUE(attributes_.NewsSince(node, start_));
  EXPECT_FALSE(attributes_.ChangedSince(node, start_));
  EXPECT_FALSE(attributes_.NewsSince(node, start_ + absl::Seconds(1)));
  attributes_.MarkChanged(node, start_ + absl::Seconds(2));
  EXPECT_TRUE(attributes_.ChangedSince(node, start_ + absl::Seconds(1)));
  EXPECT_TRUE(attributes_.NewsSince(node, start_ + absl::Seconds(2)));
  EXPECT_FALSE(attributes_.NewsSince(999999, start_));
}

}  // namespace
}  // namespace dafs::fuse
