// An announced change makes the kernel drop what it has, and then the server goes on.
#include "fuse/operations/promise_breaks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/state/promises.h"
#include "fuse/operations/shared/mount_state.h"
#include "tests/fuse/cache/node_fixture.h"
#include "tests/fuse/fake_kernel.h"
#include "wire/messages/promises.h"

namespace dafs::fuse {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20);

class PromiseBreaksTest : public testing::Test {
 protected:
  PromiseBreaksTest() {
    UniqueFd device = kernel_.TakeWorkerEnd();
    state_.notifier = std::make_unique<Notifier>(UniqueFd(fcntl(device.get(), F_DUPFD_CLOEXEC, 0)));
    breaks_ = *PromiseBreaks::Start(state_, std::move(device));
    state_.caches.rules.Use(promises_);
    promises_.Ask();
    EXPECT_TRUE(promises_.Begin(absl::Seconds(10)));
    state_.caches.inodes.SetRoot(Handle(0), File(1, wire::ObjectType::kDir));
    file_ = state_.caches.inodes.Remember(Handle(7), File(5), {kRootNode, "file"});
    directory_ = state_.caches.inodes.Remember(Handle(8), File(5, wire::ObjectType::kDir),
                                               {kRootNode, "dir"});
  }
  ~PromiseBreaksTest() override {
    breaks_.reset();
    state_.notifier->Stop();
  }

  void Keep(const std::string& name, uint64_t nodeid) {
    EXPECT_TRUE(state_.caches.directory_names.Insert(kRootNode, name, nodeid, Loop::Now(),
                                                     Loop::Now() + absl::Minutes(1)));
  }
  // Announces a change, and waits for the answer.
  void Change(const wire::FileHandle& object, uint32_t what, const std::string& name = "") {
    absl::Notification dropped;
    promises_.Changed(object);
    breaks_->OnChanged(object, what, name, [&] { dropped.Notify(); });
    EXPECT_TRUE(dropped.WaitForNotificationWithTimeout(kLong));
  }
  struct Dropped {
    std::string name;  // empty: attributes
    uint64_t nodeid = 0;
    uint32_t flags = 0;
    bool operator==(const Dropped&) const = default;
  };
  // The notifications that the kernel has received until now.
  std::vector<Dropped> Reported() {
    std::vector<Dropped> all;
    for (FakeKernel::Answer reported = kernel_.Receive(0); reported.error != 0;
         reported = kernel_.Receive(0)) {
      if (reported.error == FUSE_NOTIFY_INVAL_ENTRY) {
        auto body = reported.As<fuse_notify_inval_entry_out>();
        all.push_back({reported.body.substr(sizeof(body), body.namelen), body.parent, body.flags});
      } else {
        all.push_back({"", reported.As<fuse_notify_inval_inode_out>().ino, 0});
      }
    }
    return all;
  }

  FakeKernel kernel_;
  client::Promises promises_;
  MountState state_{Options()};
  std::unique_ptr<PromiseBreaks> breaks_;
  uint64_t file_ = 0;
  uint64_t directory_ = 0;
};

TEST_F(PromiseBreaksTest, ChangedAttributesAreDropped) {
  Change(Handle(7), wire::kChangedAttributes);
  EXPECT_THAT(Reported(), testing::ElementsAre(Dropped{"", file_, 0}));
  Change(Handle(99), wire::kChangedAttributes | wire::kChangedNames);  // unknown here
  EXPECT_TRUE(Reported().empty());
}

// The drop may wait for that change, which may wait for another mount that drops the pages, too.
TEST_F(PromiseBreaksTest, ADropOfPagesIsNotAwaitedWhileThisMountChangesTheFile) {
  absl::Notification go_on;
  state_.notifier->DropPagesIf(file_, [&] {
    go_on.WaitForNotification();
    return false;
  });
  const OwnChanges::Change change = state_.caches.attributes.BeginChange(file_, Loop::Now());
  Change(Handle(7), wire::kChangedAttributes);
  EXPECT_THAT(Reported(), testing::ElementsAre(Dropped{"", file_, 0}));
  state_.caches.attributes.EndChange(file_, change, {}, Loop::Now());
  go_on.Notify();
  state_.notifier->Stop();  // its thread uses go_on
}

TEST_F(PromiseBreaksTest, AChangedNameIsDroppedIfTheKernelMayHaveIt) {
  Keep("file", file_);
  Keep("none", 0);
  Change(Handle(0), wire::kChangedNames, "other");
  EXPECT_TRUE(Reported().empty());
  Change(Handle(0), wire::kChangedNames | wire::kChangedAttributes, "file");
  EXPECT_THAT(Reported(), testing::UnorderedElementsAre(Dropped{"", kRootNode, 0},
                                                        Dropped{"file", kRootNode, 0}));
  Change(Handle(0), wire::kChangedNames, "none");
  EXPECT_THAT(Reported(), testing::ElementsAre(Dropped{"none", kRootNode, 0}));
}

TEST_F(PromiseBreaksTest, NamesThatMayCarryMountsAreOnlyExpired) {
  Keep("dir", directory_);
  const absl::Time given = Loop::Now();
  Change(Handle(0), wire::kChangedNames, "dir");
  EXPECT_THAT(Reported(), testing::ElementsAre(Dropped{"dir", kRootNode, FUSE_EXPIRE_ONLY}));
  // The answer that gave the name may have been on its way.
  EXPECT_GE(Loop::Now() - given, absl::Milliseconds(50));
  Keep("file", file_);
  Change(Handle(0), wire::kChangedNames);
  EXPECT_THAT(Reported(),
              testing::UnorderedElementsAre(Dropped{"dir", kRootNode, FUSE_EXPIRE_ONLY},
                                            Dropped{"file", kRootNode, FUSE_EXPIRE_ONLY}));
}

TEST_F(PromiseBreaksTest, ACachedListingIsDroppedWithAnyName) {
  state_.caches.directory_names.CachesListing(kRootNode);
  Change(Handle(0), wire::kChangedNames, "new");
  EXPECT_THAT(Reported(), testing::ElementsAre(Dropped{"", kRootNode, 0}));
  Change(Handle(8), wire::kChangedNames, "new");
  EXPECT_TRUE(Reported().empty());
}

TEST_F(PromiseBreaksTest, VoidDropsAllThatTheKernelMayUse) {
  Keep("file", file_);
  Keep("none", 0);
  state_.caches.attributes.Sent(file_, File(5),
                                Loop::Now());  // not promised: the kernel keeps nothing
  client::Attributes promised = File(5, wire::ObjectType::kDir);
  promised.promise = {promises_.sequence(), true};
  state_.caches.attributes.Sent(directory_, promised, Loop::Now());
  Keep("dir", directory_);
  promises_.End();
  absl::Notification dropped;
  breaks_->OnVoid([&] { dropped.Notify(); });
  ASSERT_TRUE(dropped.WaitForNotificationWithTimeout(kLong));
  const std::vector<Dropped> reported = Reported();
  EXPECT_THAT(reported, testing::IsSupersetOf({Dropped{"", directory_, 0},
                                               Dropped{"file", kRootNode, FUSE_EXPIRE_ONLY},
                                               Dropped{"none", kRootNode, FUSE_EXPIRE_ONLY},
                                               Dropped{"dir", kRootNode, FUSE_EXPIRE_ONLY}}));
  EXPECT_THAT(reported, testing::Each(testing::Ne(Dropped{"", kRootNode, 0})));
}

TEST_F(PromiseBreaksTest, VoidDropsFirstAndThenWaitsForAnswersOnTheirWay) {
  for (size_t number = 10; number < 10 + 2 * InodeTable::kShards; ++number) {
    const auto id = static_cast<uint8_t>(number);
    const std::string name = std::to_string(id);
    Keep(name, state_.caches.inodes.Remember(Handle(id), File(id), {kRootNode, name}));
  }
  promises_.End();
  const absl::Time start = Loop::Now();
  absl::Notification dropped;
  breaks_->OnVoid([&] { dropped.Notify(); });
  // Each name twice, with the time that one answer needs in between.
  ASSERT_TRUE(dropped.WaitForNotificationWithTimeout(kLong));
  EXPECT_GE(Loop::Now() - start, absl::Milliseconds(50));
  EXPECT_LT(Loop::Now() - start, InodeTable::kShards * absl::Milliseconds(50));
  EXPECT_THAT(Reported(), testing::SizeIs(testing::Ge(4 * InodeTable::kShards)));
}

// Notifications that do not return stand for a directory that the kernel has locked.
class LockedDirectoryTest : public PromiseBreaksTest {
 protected:
  LockedDirectoryTest() {
    for (size_t i = 0; i < Notifier::kNameThreads; ++i) {
      state_.notifier->DropName(kRootNode, "x", KernelChannel::NameDrop::kRemove,
                                [this] { unlocked_.WaitForNotification(); });
    }
    Keep("file", file_);
  }
  ~LockedDirectoryTest() override {
    if (!unlocked_.HasBeenNotified()) unlocked_.Notify();
    state_.notifier->Stop();
  }

  absl::Notification unlocked_;
  absl::Notification dropped_;
};

TEST_F(LockedDirectoryTest, AnOwnChangeOfNamesEndsTheWait) {
  const OwnChanges::Change change = state_.caches.attributes.BeginChange(kRootNode, Loop::Now());
  EXPECT_TRUE(state_.caches.attributes.IsChanging(kRootNode));
  Change(Handle(0), wire::kChangedNames, "file");
  // The kernel keeps no name of the directory for a while.
  EXPECT_FALSE(state_.caches.directory_names.Insert(kRootNode, "new", file_, Loop::Now(),
                                                    Loop::Now() + absl::Minutes(1)));
  state_.caches.attributes.EndChange(kRootNode, change, {}, Loop::Now());
  EXPECT_FALSE(state_.caches.attributes.IsChanging(kRootNode));
}

TEST_F(LockedDirectoryTest, WithoutOneTheServerWaitsForTheLock) {
  breaks_->OnChanged(Handle(0), wire::kChangedNames, "file", [&] { dropped_.Notify(); });
  EXPECT_FALSE(dropped_.WaitForNotificationWithTimeout(5 * PromiseBreaks::kPatience));
  unlocked_.Notify();
  EXPECT_TRUE(dropped_.WaitForNotificationWithTimeout(kLong));
}

}  // namespace
}  // namespace dafs::fuse
