// The client's record of its locks and waits.
#include "client/state/locks.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/loop/loop.h"
#include "runtime/loop/loop_wait.h"
#include "runtime/loop/task.h"

namespace dafs::client {
namespace {

using wire::LockRange;

class LocksTest : public testing::Test {
 protected:
  static LockOwner Owner(uint8_t file, uint64_t state, uint64_t process) {
    LockOwner owner;
    owner.file.fileid.bytes[0] = file;
    owner.state_id = wire::OpaqueFromUint64<wire::StateId>(state);
    owner.process = process;
    return owner;
  }
  Locks::Wait* Begin(const LockOwner& owner, const LockRange& range) {
    waits_.push_back(std::make_unique<Waiter>(*loop_));
    Waiter& waiter = *waits_.back();
    waiter.known.owner = owner;
    waiter.known.range = range;
    waiter.known.waker = waiter.wait.waker();
    Start(CountWakes(waiter.wait));
    locks_.BeginWait(&waiter.known);
    return &waiter.known;
  }
  // Begins a wait; returns whether it is a deadlock.
  bool Wait(const LockOwner& owner, const LockRange& range) {
    return locks_.IsDeadlock(*Begin(owner, range));
  }
  void TearDown() override {
    for (const auto& waiter : waits_) {
      locks_.EndWait(&waiter->known);
      waiter->wait.End(absl::CancelledError("the test ends"));
    }
  }
  // How many waits were woken since the last call.
  int Woken() {
    loop_->RunOnce(absl::ZeroDuration());
    return std::exchange(woken_, 0);
  }

  struct Waiter {
    explicit Waiter(Loop& loop) : wait(loop) {}
    LoopWait wait;
    Locks::Wait known;
  };
  Task<void> CountWakes(LoopWait& wait) {
    for (;;) {
      absl::Status status = co_await wait.Wait();
      if (!status.ok()) co_return;
      ++woken_;
    }
  }

  const std::unique_ptr<Loop> loop_ = *Loop::Create();
  Locks locks_;
  std::vector<std::unique_ptr<Waiter>> waits_;
  int woken_ = 0;
  const LockRange all_{0, 99, true};
};

TEST_F(LocksTest, KeepsHeldLocksForRecovery) {
  const LockOwner a = Owner(1, 1, 7), b = Owner(1, 2, 8);
  locks_.Granted(a, {0, 9, true});
  EXPECT_TRUE(locks_.Granted(a, {20, 29, false}).empty());
  EXPECT_EQ(locks_.Granted(a, {5, 24, true}),
            (std::vector<LockRange>{{5, 9, true}, {20, 24, false}}));
  locks_.Released(a, 10, 19);
  locks_.Granted(a, {20, 29, false});
  locks_.Granted(a, wire::FlockRange(true));
  locks_.Granted(b, {40, 49, false});
  EXPECT_EQ(locks_.count(), 4u);
  EXPECT_EQ(locks_.HeldBy(b.file, b.state_id), (std::vector<LockRange>{{40, 49, false}}));
  EXPECT_TRUE(locks_.IsLocked(b.file));
  EXPECT_FALSE(locks_.IsLocked(Owner(99, 1, 7).file));
  locks_.Released(b, 0, wire::kFlockByte - 1);
  EXPECT_TRUE(locks_.HeldBy(b.file, b.state_id).empty());
  EXPECT_EQ(locks_.Forget(a.file, a.state_id),
            (std::vector<LockRange>{{0, 9, true}, {20, 29, false}, wire::FlockRange(true)}));
  EXPECT_TRUE(locks_.Forget(a.file, a.state_id).empty());
  EXPECT_EQ(locks_.count(), 0u);
}

TEST_F(LocksTest, FindsCyclesAcrossFilesAndProcesses) {
  locks_.Granted(Owner(1, 1, 7), all_);
  locks_.Granted(Owner(2, 2, 8), all_);
  locks_.Granted(Owner(3, 3, 9), {0, 0, false});
  EXPECT_FALSE(Wait(Owner(2, 4, 7), all_));  // 7 waits for 8
  EXPECT_FALSE(Wait(Owner(3, 5, 8), all_));  // 8 waits for 9
  EXPECT_FALSE(Wait(Owner(3, 6, 10), all_));
  EXPECT_TRUE(Wait(Owner(1, 7, 9), all_));  // 9 waits for 7
}

TEST_F(LocksTest, WaitsWithoutCycleAreNoDeadlock) {
  locks_.Granted(Owner(1, 1, 7), {0, 9, false});
  locks_.Granted(Owner(1, 2, 8), {0, 9, false});
  EXPECT_FALSE(
      Wait(Owner(1, 1, 7), {50, 59, true}));  // for a remote client's lock, which is unknown here
  EXPECT_FALSE(Wait(Owner(1, 2, 8), {5, 5, false}));  // read locks do not conflict
  // Both upgrade: each waits for the other.
  EXPECT_FALSE(Wait(Owner(1, 1, 7), all_));
  EXPECT_TRUE(Wait(Owner(1, 2, 8), all_));
}

// Two opens of one process for one file exist while the earlier one is closed.
TEST_F(LocksTest, ProcessDoesNotWaitForItself) {
  locks_.Granted(Owner(1, 1, 7), all_);
  EXPECT_FALSE(Wait(Owner(1, 2, 7), all_));
}

TEST_F(LocksTest, OwnersWithoutProcessAreInNoCycle) {
  locks_.Granted(Owner(1, 1, 0), all_);
  locks_.Granted(Owner(2, 2, 8), all_);
  EXPECT_FALSE(Wait(Owner(2, 3, 0), all_));
  EXPECT_FALSE(Wait(Owner(1, 4, 8), all_));
}

// The wait-for edge ends when the lock is released, whatever the server reported before.
TEST_F(LocksTest, OwnerThatReleasedTheLockIsInNoCycle) {
  const LockOwner a = Owner(1, 1, 7), b = Owner(2, 2, 8);
  locks_.Granted(a, all_);
  locks_.Granted(b, all_);
  EXPECT_FALSE(Wait(Owner(2, 3, 7), all_));
  locks_.Released(b, 0, 99);
  EXPECT_FALSE(Wait(Owner(1, 4, 8), all_));
}

TEST_F(LocksTest, ReleaseWakesOnlyAffectedWaiters) {
  const LockOwner a = Owner(1, 1, 7);
  locks_.Granted(a, all_);
  Wait(Owner(1, 2, 8), {0, 9, true});
  Wait(Owner(1, 3, 9), {50, 59, true});
  Wait(Owner(2, 4, 10), {0, 9, true});
  locks_.Released(a, 40, 99);
  EXPECT_EQ(Woken(), 1);
  for (uint64_t i = 0; i < 20; ++i) Wait(Owner(1, 10 + i, 20 + i), {0, 9, true});
  locks_.Released(Owner(1, 2, 8), 0, 99);  // it held nothing
  EXPECT_EQ(Woken(), 0);
  locks_.Released(a, 0, 9);
  EXPECT_EQ(Woken(), 4);  // not all of the waiters
  locks_.Wake(a.file, {{5, 5, true}});
  EXPECT_EQ(Woken(), 4);
}

TEST_F(LocksTest, AnnouncementWakesOneWaiterForTheRange) {
  Locks::Wait* first = Begin(Owner(1, 2, 8), {0, 9, true});
  Locks::Wait* second = Begin(Owner(1, 3, 9), {0, 9, false});
  Begin(Owner(1, 4, 10), {0, 10, true});
  Begin(Owner(2, 5, 11), {0, 9, true});
  locks_.Announce(first->owner.file, 0, 9);
  EXPECT_EQ(Woken(), 0);
  locks_.Announce(first->owner.file, 0, 10);
  EXPECT_EQ(Woken(), 1);
  EXPECT_TRUE(first->announced);
  locks_.Announce(first->owner.file, 0, 10);
  EXPECT_EQ(Woken(), 1);
  EXPECT_TRUE(second->announced);
  locks_.Announce(first->owner.file, 0, 10);  // none is left
  locks_.Announce(first->owner.file, 0, 0);   // of a server that breaks the protocol
  EXPECT_EQ(Woken(), 0);
}

// The server serves waiters in the order of their requests, which may differ from the order here.
TEST_F(LocksTest, WaiterThatIsDeniedPassesTheAnnouncementOn) {
  Locks::Wait* first = Begin(Owner(1, 2, 8), {0, 9, true});
  Locks::Wait* second = Begin(Owner(1, 3, 9), {0, 9, true});
  locks_.Denied(first, false);
  EXPECT_EQ(Woken(), 0);
  locks_.Announce(first->owner.file, 0, 10);
  EXPECT_EQ(Woken(), 1);
  locks_.Denied(first, false);
  EXPECT_EQ(Woken(), 1);
  EXPECT_TRUE(second->announced);
  locks_.Denied(second, false);
  EXPECT_EQ(Woken(), 0);
}

// The server announces the release to the waiter that comes first, wherever it is.
TEST_F(LocksTest, ReleaseDoesNotWakeAWaiterForAnAnnouncement) {
  const LockOwner a = Owner(1, 1, 7);
  locks_.Granted(a, all_);
  Locks::Wait* wait = Begin(Owner(1, 2, 8), {0, 9, true});
  locks_.Denied(wait, true);  // without a Back-control Channel there are no announcements
  locks_.Released(a, 0, 9);
  EXPECT_EQ(Woken(), 1);
  locks_.SetAnnounced(true);
  EXPECT_EQ(Woken(), 1);
  locks_.Denied(wait, true);
  locks_.Released(a, 0, 9);
  EXPECT_EQ(Woken(), 0);
  locks_.SetAnnounced(false);
  EXPECT_EQ(Woken(), 1);
  locks_.Released(a, 0, 9);
  EXPECT_EQ(Woken(), 1);
}

}  // namespace
}  // namespace dafs::client
