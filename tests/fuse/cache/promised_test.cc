// The caches of a mount under the server's promises.
#include <gtest/gtest.h>

#include <optional>

#include "client/state/promises.h"
#include "fuse/cache/absent_xattr_cache.h"
#include "fuse/cache/attribute_cache.h"
#include "fuse/cache/promise_rules.h"
#include "tests/fuse/cache/node_fixture.h"

namespace dafs::fuse {
namespace {

constexpr uint64_t kRootDirectory = kRootNode;

class PromisedTest : public NodeFixture {
 protected:
  PromisedTest() {
    rules_.Use(promises_);
    promises_.Ask();
    EXPECT_TRUE(promises_.Begin(absl::Seconds(10)));
    node_ = table_.Remember(Handle(7), File(5), {kRootDirectory, "file"}, {0, start_});
  }
  client::Attributes Promised(uint64_t change, bool only_clients = true) const {
    client::Attributes attributes = File(change);
    attributes.promise = {promises_.sequence(), only_clients};
    return attributes;
  }
  absl::Duration Sent(const client::Attributes& attributes, absl::Duration after = {}) {
    return attributes_.Sent(node_, attributes, start_ + after);
  }

  client::Promises promises_;
  uint64_t node_ = 0;
  const CacheTimes times_;
  AbsentXattrCache absent_{table_, times_, rules_};
};

TEST_F(PromisedTest, AttributesAreKeptByTheirPromise) {
  EXPECT_EQ(Sent(Promised(5)), PromiseRules::kPromisedFor);
  EXPECT_EQ(Sent(File(5)), absl::ZeroDuration());  // no promise came with them
  EXPECT_EQ(Sent(Promised(5, /*only_clients=*/false)), times_.reg_min);
  EXPECT_EQ(Sent(Promised(5, false), times_.reg_min), 2 * times_.reg_min);
}

TEST_F(PromisedTest, APromisedTimeDoesNotOutlastOnlyClients) {
  EXPECT_EQ(Sent(Promised(5)), PromiseRules::kPromisedFor);
  EXPECT_EQ(Sent(Promised(5, false), absl::Seconds(1)), times_.reg_max);
}

TEST_F(PromisedTest, NothingIsKeptAfterAChangeWasAnnounced) {
  const client::Attributes before = Promised(5);
  promises_.Changed(Handle(7));
  EXPECT_EQ(Sent(before), absl::ZeroDuration());
  EXPECT_EQ(Sent(Promised(6)), PromiseRules::kPromisedFor);
  const client::Attributes old = Promised(6);
  promises_.End();
  EXPECT_EQ(Sent(old), absl::ZeroDuration());
  EXPECT_EQ(Sent(File(6)), absl::ZeroDuration());
}

TEST_F(PromisedTest, AServerThatRefusesIsCachedByTime) {
  promises_.Refuse();
  EXPECT_EQ(Sent(File(5)), times_.reg_min);
}

TEST_F(PromisedTest, TheKernelNeedsNoRequestWhileItHasPromisedAttributes) {
  const absl::Time now = start_ + absl::Minutes(1);
  EXPECT_FALSE(attributes_.IsAnswered(node_, now));
  Sent(Promised(5, /*only_clients=*/false));
  EXPECT_FALSE(attributes_.IsAnswered(node_, now));
  Sent(Promised(5));
  EXPECT_TRUE(attributes_.IsAnswered(node_, now));
  EXPECT_FALSE(attributes_.IsAnswered(node_, start_ + PromiseRules::kPromisedFor));
  // A change by this mount: the kernel asks, and is answered if the attributes came with the
  // change.
  attributes_.MarkChanged(node_, now);
  EXPECT_FALSE(attributes_.IsAnswered(node_, now));
  attributes_.KeepPrefetched(node_, attributes_.MomentOf(node_), Promised(6), now);
  EXPECT_TRUE(attributes_.IsAnswered(node_, now));
  promises_.Changed(Handle(7));
  EXPECT_FALSE(attributes_.IsAnswered(node_, now));
}

TEST_F(PromisedTest, SentAttributesOfADirectoryServeAgainUntilTheyChange) {
  client::Attributes directory = Promised(5);
  directory.object_type = wire::ObjectType::kDir;
  const uint64_t node =
      table_.Remember(Handle(9), directory, {kRootDirectory, "inner"}, {0, start_});
  const auto served = [&] {
    attributes_.KeepSent(node, start_ + absl::Seconds(1));
    return attributes_.TakePrefetched(node, start_ + absl::Seconds(2)).has_value();
  };
  EXPECT_FALSE(served());
  attributes_.Sent(node, directory, start_);
  EXPECT_TRUE(served());
  EXPECT_TRUE(served());
  attributes_.MarkChanged(node, start_ + absl::Seconds(1));
  EXPECT_FALSE(served());
  directory.promise = {promises_.sequence(), true};
  attributes_.Sent(node, directory, start_ + absl::Seconds(1));
  EXPECT_TRUE(served());
  promises_.Changed(Handle(9));
  EXPECT_FALSE(served());
}

TEST_F(PromisedTest, FreshAttributesAreUsedWhileTheirPromiseHolds) {
  attributes_.KeepPrefetched(node_, attributes_.MomentOf(node_), Promised(5), start_);
  // Long after the cache times.
  const absl::Time later = start_ + absl::Minutes(9);
  std::optional<AttributeCache::Prefetched> fresh = attributes_.TakePrefetched(node_, later, later);
  ASSERT_TRUE(fresh.has_value());
  EXPECT_EQ(fresh->valid_for, absl::Minutes(1));

  attributes_.KeepPrefetched(node_, attributes_.MomentOf(node_), Promised(5),
                             later + absl::Seconds(1));
  promises_.Changed(Handle(7));
  EXPECT_FALSE(attributes_.TakePrefetched(node_, later + absl::Seconds(2)).has_value());
  attributes_.KeepPrefetched(node_, attributes_.MomentOf(node_), File(6), later + absl::Seconds(3));
  EXPECT_FALSE(attributes_.TakePrefetched(node_, later + absl::Seconds(3)).has_value());
}

TEST_F(PromisedTest, ChangesThatTheKernelDoesNotSeeAreReported) {
  const auto hides = [&](const client::Attributes& attributes) {
    bool hides = false;
    attributes_.Sent(node_, attributes, start_, {}, &hides);
    return hides;
  };
  EXPECT_FALSE(hides(Promised(5)));
  EXPECT_FALSE(hides(Promised(6)));  // this mount has changed it: no change was announced
  promises_.Changed(Handle(7));
  EXPECT_TRUE(hides(Promised(7)));
  promises_.Changed(Handle(7));
  client::Attributes longer = Promised(9);
  longer.object_size = 1;
  EXPECT_FALSE(hides(longer));  // the kernel sees the size
  promises_.Refuse();
  EXPECT_FALSE(hides(File(10)));
}

// To drop pages is to discard attributes on their way, by which the kernel checks permissions.
TEST_F(PromisedTest, AChangeOfRightsIsAcceptedBeforePagesAreDropped) {
  bool hides = false;
  attributes_.Sent(node_, Promised(5), start_, {}, &hides);
  promises_.Changed(Handle(7));
  client::Attributes other_mode = Promised(6);
  other_mode.mode = 0600;
  EXPECT_EQ(attributes_.Sent(node_, other_mode, start_, {}, &hides), absl::ZeroDuration());
  EXPECT_FALSE(hides);
  EXPECT_EQ(Sent(other_mode), absl::ZeroDuration());  // with an answer that cannot drop them
  EXPECT_EQ(attributes_.Sent(node_, other_mode, start_, {}, &hides), PromiseRules::kPromisedFor);
  EXPECT_TRUE(hides);
  attributes_.Sent(node_, other_mode, start_, {}, &hides);
  EXPECT_FALSE(hides);
}

// The kernel may have another size, and discards attributes that a drop of pages outruns.
TEST_F(PromisedTest, TheFirstAttributesAfterAKillAreAcceptedBeforePagesAreDropped) {
  table_.With(node_, [](Inode* inode) { inode->kernel.Restore(4); });
  bool hides = true;
  EXPECT_EQ(attributes_.Sent(node_, Promised(5), start_, {}, &hides), absl::ZeroDuration());
  EXPECT_FALSE(hides);
  EXPECT_EQ(attributes_.Sent(node_, Promised(5), start_, {}, &hides), PromiseRules::kPromisedFor);
  EXPECT_TRUE(hides);
}

TEST_F(PromisedTest, KeptByKernelListsWhatTheKernelMayUse) {
  const uint64_t shard = node_ % InodeTable::kShards;
  EXPECT_TRUE(attributes_.KeptByKernel(shard, start_).empty());
  Sent(Promised(5));
  EXPECT_EQ(attributes_.KeptByKernel(shard, start_ + absl::Minutes(10)),
            std::vector<uint64_t>{node_});
  EXPECT_TRUE(attributes_.KeptByKernel(shard, start_ + absl::Minutes(11)).empty());
}

TEST_F(PromisedTest, AbsentAttributesHoldWhileThePromiseOfTheNodeHolds) {
  absent_.Note(node_, AbsentXattr::kAccessAcl, start_);
  EXPECT_FALSE(absent_.Known(node_, AbsentXattr::kAccessAcl, start_));  // nothing is promised
  Sent(Promised(5), absl::Seconds(1));
  EXPECT_FALSE(
      absent_.Known(node_, AbsentXattr::kAccessAcl, start_));  // may have changed in between
  absent_.Note(node_, AbsentXattr::kAccessAcl, start_ + absl::Seconds(2));
  EXPECT_TRUE(absent_.Known(node_, AbsentXattr::kAccessAcl, start_ + absl::Hours(1)));
  Sent(Promised(6), absl::Seconds(3));  // changed by this mount; the promise was not interrupted
  EXPECT_TRUE(absent_.Known(node_, AbsentXattr::kAccessAcl, start_ + absl::Hours(1)));
  promises_.Changed(Handle(7));
  EXPECT_FALSE(absent_.Known(node_, AbsentXattr::kAccessAcl, start_ + absl::Hours(1)));
  Sent(Promised(6), absl::Seconds(4));
  EXPECT_FALSE(absent_.Known(node_, AbsentXattr::kAccessAcl, start_ + absl::Hours(1)));
}

TEST_F(PromisedTest, WithoutOnlyClientsAbsentAttributesHoldForTheCacheTimesToo) {
  Sent(Promised(5, false));
  absent_.Note(node_, AbsentXattr::kAccessAcl, start_);
  EXPECT_TRUE(absent_.Known(node_, AbsentXattr::kAccessAcl, start_ + absl::Hours(1)));
  Sent(Promised(6, false), absl::Seconds(1));
  EXPECT_TRUE(absent_.Known(node_, AbsentXattr::kAccessAcl, start_ + absl::Seconds(2)));
  EXPECT_FALSE(absent_.Known(node_, AbsentXattr::kAccessAcl, start_ + absl::Hours(1)));
}

TEST_F(PromisedTest, AChangedHandleLeadsToAllItsNodes) {
  EXPECT_EQ(table_.NodesOf(Handle(0)).size(), 1u);
  EXPECT_EQ(table_.NodesOf(Handle(0))[0], kRootNode);
  EXPECT_EQ(table_.NodesOf(Handle(7))[0], node_);
  EXPECT_TRUE(table_.NodesOf(Handle(9)).empty());
  // The kernel does not accept a moved directory where the same thread has found it twice.
  const client::Attributes directory = File(1, wire::ObjectType::kDir);
  const uint64_t first = table_.Remember(Handle(8), directory, {kRootDirectory, "a"}, {5, start_});
  table_.Remember(Handle(8), directory, {node_, "b"}, {5, start_});
  const uint64_t second = table_.Remember(Handle(8), directory, {node_, "b"}, {5, start_});
  ASSERT_NE(first, second);
  EXPECT_EQ(table_.NodesOf(Handle(8)).size(), 2u);
  table_.Forget(first, 2);
  ASSERT_EQ(table_.NodesOf(Handle(8)).size(), 1u);
  EXPECT_EQ(table_.NodesOf(Handle(8))[0], second);
  std::optional<InodeTable::Forgotten> gone = table_.Forget(second, 1);
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->dentry, (DentryName{node_, "b"}));
  EXPECT_TRUE(table_.NodesOf(Handle(8)).empty());
}

}  // namespace
}  // namespace dafs::fuse
