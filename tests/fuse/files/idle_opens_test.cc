#include "fuse/files/idle_opens.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {
namespace {

constexpr uint64_t kNode = 40;

wire::FileAttributes Attributes(uint64_t change) {
  wire::FileAttributes attributes;
  attributes.set(wire::kFattrChange | wire::kFattrMode | wire::kFattrOwner |
                 wire::kFattrOwnerGroup);
  attributes.change = change;
  attributes.mode = 0644;
  attributes.owner = "1000";
  attributes.owner_group = "100";
  return attributes;
}

class IdleOpensTest : public ::testing::Test {
 protected:
  IdleOpensTest() {
    who_->uid = 1000;
    who_->gid = 100;
  }
  std::shared_ptr<OpenState> Opened(uint64_t nodeid, uint32_t flags = O_RDONLY) {
    auto open = std::make_shared<OpenState>();
    const wire::FileAttributes attributes = Attributes(1);
    open->nodeid = nodeid;
    open->state_id.bytes[0] = static_cast<uint8_t>(++opened_);
    open->flags = flags;
    open->change = attributes.change;
    open->mode = attributes.mode;
    open->owner = attributes.owner;
    open->owner_group = attributes.owner_group;
    open->opener = who_;
    return open;
  }
  // Returns whether it is kept, and no other open was evicted for it.
  bool Keep(const IdleOpens::Open& open) { return idle_.Keep(open, now_) == nullptr; }
  bool CanTake(uint64_t nodeid, const client::Identity& who, uint32_t flags) {
    return idle_.Take(nodeid, who, flags, now_).has_value();
  }
  static std::vector<uint64_t> Nodes(const std::vector<IdleOpens::Open>& opens) {
    std::vector<uint64_t> nodes;
    for (const IdleOpens::Open& open : opens) nodes.push_back(open->nodeid);
    return nodes;
  }

  std::shared_ptr<client::Identity> who_ = std::make_shared<client::Identity>();
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  int opened_ = 0;
  IdleOpens idle_;
};

TEST_F(IdleOpensTest, ServesOnlyTheSameUserFileAndMode) {
  std::shared_ptr<OpenState> open = Opened(kNode);
  ASSERT_TRUE(Keep(open));
  client::Identity other = *who_;
  other.uid = 1001;
  EXPECT_FALSE(CanTake(kNode, other, O_RDONLY));
  other = *who_;
  other.groups.push_back(27);
  EXPECT_FALSE(CanTake(kNode, other, O_RDONLY));
  EXPECT_FALSE(CanTake(kNode + 1, *who_, O_RDONLY));
  EXPECT_FALSE(CanTake(kNode, *who_, O_RDWR));
  EXPECT_FALSE(CanTake(kNode, *who_, O_WRONLY));
  EXPECT_FALSE(CanTake(kNode, *who_, O_RDONLY | kOpenForExec));
  std::optional<IdleOpens::Kept> kept = idle_.Take(kNode, *who_, O_RDONLY | O_DIRECT, now_);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->open, open);
  EXPECT_EQ(kept->since, now_);
  EXPECT_FALSE(CanTake(kNode, *who_, O_RDONLY)) << "it is in use";
  EXPECT_TRUE(idle_.TakeAll().empty());
}

TEST_F(IdleOpensTest, AnUnusedOpenExpires) {
  EXPECT_EQ(idle_.NextOld(), std::nullopt);
  const absl::Time start = now_;
  ASSERT_TRUE(Keep(Opened(1)));
  now_ += IdleOpens::kFor / 2;
  ASSERT_TRUE(Keep(Opened(2)));
  EXPECT_EQ(idle_.NextOld(), start + IdleOpens::kFor);
  now_ = start + IdleOpens::kFor - absl::Nanoseconds(1);
  EXPECT_TRUE(idle_.TakeOld(now_).empty());
  now_ = start + IdleOpens::kFor;
  EXPECT_FALSE(CanTake(1, *who_, O_RDONLY)) << "expired, though the timer has not removed it yet";
  EXPECT_EQ(Nodes(idle_.TakeOld(now_)), std::vector<uint64_t>{1});
  EXPECT_EQ(idle_.NextOld(), start + IdleOpens::kFor * 3 / 2);
  EXPECT_TRUE(CanTake(2, *who_, O_RDONLY));
}

TEST_F(IdleOpensTest, KeepsABoundedNumberAndEvictsTheOldest) {
  for (uint64_t node = 1; node <= IdleOpens::kMost; ++node) ASSERT_TRUE(Keep(Opened(node)));
  IdleOpens::Open oldest = idle_.Keep(Opened(1000), now_);
  ASSERT_NE(oldest, nullptr);
  EXPECT_EQ(oldest->nodeid, 1u);
  EXPECT_TRUE(CanTake(1000, *who_, O_RDONLY));
  EXPECT_TRUE(CanTake(2, *who_, O_RDONLY));
}

TEST_F(IdleOpensTest, KeepsOnlyReadOnlyOpensWithoutLocks) {
  std::shared_ptr<OpenState> without_state = Opened(kNode);
  without_state->state_id = {};  // the server has no open for it
  std::shared_ptr<OpenState> locked = Opened(kNode);
  locked->locked = true;
  std::shared_ptr<OpenState> unknown = Opened(kNode);
  unknown->change.reset();
  for (const IdleOpens::Open& open :
       {Opened(kNode, O_RDWR), Opened(kNode, O_WRONLY), without_state, locked, unknown}) {
    EXPECT_EQ(idle_.Keep(open, now_), open);
  }
  EXPECT_TRUE(Keep(Opened(kNode, O_RDONLY | kOpenForExec)));
  EXPECT_TRUE(CanTake(kNode, *who_, O_RDONLY | kOpenForExec));
}

TEST_F(IdleOpensTest, AFileThatChangesIsEvictedAndNotKeptForItsNextCloses) {
  ASSERT_TRUE(Keep(Opened(kNode)));
  ASSERT_TRUE(Keep(Opened(kNode + 1)));
  ASSERT_TRUE(Keep(Opened(kNode)));
  EXPECT_EQ(Nodes(idle_.HasChanged(kNode)), (std::vector<uint64_t>{kNode, kNode}));
  for (uint32_t i = 0; i < IdleOpens::kNotKept; ++i) EXPECT_FALSE(Keep(Opened(kNode)));
  EXPECT_TRUE(Keep(Opened(kNode)));
  EXPECT_EQ(Nodes(idle_.TakeAll()), (std::vector<uint64_t>{kNode + 1, kNode}));
}

TEST_F(IdleOpensTest, TakeAllReturnsAllAndNoneIsKeptAfterStop) {
  ASSERT_TRUE(Keep(Opened(1)));
  ASSERT_TRUE(Keep(Opened(2)));
  EXPECT_EQ(Nodes(idle_.TakeAll()), (std::vector<uint64_t>{1, 2}));
  ASSERT_TRUE(Keep(Opened(3)));
  EXPECT_EQ(Nodes(idle_.Stop()), std::vector<uint64_t>{3});
  EXPECT_FALSE(Keep(Opened(4)));
  EXPECT_EQ(idle_.NextOld(), std::nullopt);
}

TEST_F(IdleOpensTest, AFileIsAsOpenedUntilItsDataOrPermissionsChange) {
  const std::shared_ptr<OpenState> open = Opened(kNode);
  EXPECT_TRUE(IsAsOpened(*open, Attributes(1)));
  EXPECT_FALSE(IsAsOpened(*open, Attributes(2)));
  EXPECT_FALSE(IsAsOpened(*open, wire::FileAttributes()));
  // Changed within one tick of the server's clock: CHANGE stays the same.
  wire::FileAttributes attributes = Attributes(1);
  attributes.mode = 0600;
  EXPECT_FALSE(IsAsOpened(*open, attributes));
  attributes = Attributes(1);
  attributes.owner = "0";
  EXPECT_FALSE(IsAsOpened(*open, attributes));
  attributes = Attributes(1);
  attributes.owner_group = "0";
  EXPECT_FALSE(IsAsOpened(*open, attributes));
}

}  // namespace
}  // namespace dafs::fuse
