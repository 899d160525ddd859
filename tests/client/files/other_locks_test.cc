// Locks at servers that differ from dafsd: they split no locks, or revoke some. Also when the
// client assumes that its leases end. Spec: 4.4.1.2.
#include <memory>
#include <vector>

#include "client/files/opens/lock_wait.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using wire::DafsStatus;
using wire::LockRange;
using wire::Proc;

class OtherLocksTest : public ScriptedTest {
 protected:
  LockOwner Open(const std::string& file, const std::string& owner) {
    OpenRequest request;
    request.name = file;
    request.owner = owner;
    request.share_access = wire::kShareBoth;
    absl::StatusOr<OpenFile> opened = Await(files_->opens().Open(user_, request));
    EXPECT_OK(opened);
    return opened.ok() ? LockOwner{opened->handle, opened->state_id, 1} : LockOwner();
  }
  absl::Status Lock(const LockOwner& owner, const LockRange& range) {
    return Await(files_->locks().Lock(user_, owner, range)).status();
  }
  absl::Status Unlock(const LockOwner& owner, uint64_t first, uint64_t last) {
    return Await(files_->locks().Unlock(user_, owner, first, last));
  }
  absl::Status Read(const LockOwner& owner) {
    BufferLease lease = files_->buffers().TryAcquire(BufferUse::kReadTarget, 4096);
    return Await(files_->data().Read(user_, owner.file, owner.state_id, 0, lease, 100)).status();
  }
  std::vector<LockRange> HeldBy(const LockOwner& owner) const {
    return client_->locks().HeldBy(owner.file, owner.state_id);
  }

  // Makes the server unlock only whole locks as granted, and refuse to close a locked file.
  void SplitNothing() {
    server_.script = [this](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure == Proc::kLock) {
        const auto args = request.Decode<wire::LockArgs>();
        locked_.push_back(wire::LockRangeOf(args.offset, args.length, args.lock_type));
        return false;
      }
      if (request.header.procedure == Proc::kLocku) {
        const auto args = request.Decode<wire::LockuArgs>();
        const LockRange range = wire::LockRangeOf(args.offset, args.length, args.lock_type);
        const size_t gone = std::erase_if(locked_, [&](const LockRange& held) {
          return held.first == range.first && held.last == range.last;
        });
        if (gone == 0) c.Refuse(request, DafsStatus::kLockRange);
        return gone == 0;
      }
      if (request.header.procedure != Proc::kClose || locked_.empty()) return false;
      c.Refuse(request, DafsStatus::kInval);
      return true;
    };
  }
  std::vector<LockRange> locked_;  // the locks at that server
};

// Shows DAFS-4.4.1.2-14
TEST_F(OtherLocksTest, LockThatTheServerCannotSplitIsReportedAndKept) {
  MakeFiles();
  SplitNothing();
  const LockOwner owner = Open("f", "a");
  ASSERT_OK(Lock(owner, {0, 99, true}));
  const absl::Status refused = Unlock(owner, 10, 19);
  EXPECT_EQ(wire::DafsFromStatus(refused), DafsStatus::kLockRange) << refused;
  EXPECT_EQ(HeldBy(owner), (std::vector<LockRange>{{0, 99, true}}));
  ASSERT_OK(Unlock(owner, 0, 99));
  EXPECT_TRUE(HeldBy(owner).empty());
  EXPECT_TRUE(locked_.empty());
}

TEST_F(OtherLocksTest, LockThatTheServerCannotExtendIsReportedAndNotHeld) {
  MakeFiles();
  const LockOwner owner = Open("f", "a");
  ASSERT_OK(Lock(owner, {0, 9, false}));
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLock) return false;
    c.Refuse(request, DafsStatus::kLockRange);
    return true;
  };
  const absl::Status refused = Lock(owner, {5, 99, true});
  EXPECT_EQ(wire::DafsFromStatus(refused), DafsStatus::kLockRange) << refused;
  EXPECT_EQ(HeldBy(owner), (std::vector<LockRange>{{0, 9, false}}));
}

// Shows DAFS-4.4.1.2-45: the client releases the locks before it closes the file, one at a time if
// necessary.
TEST_F(OtherLocksTest, LocksThatUnlockOnlyAsGrantedAreReleasedBeforeClose) {
  MakeFiles();
  SplitNothing();
  const LockOwner owner = Open("f", "a");
  ASSERT_OK(Lock(owner, {0, 9, true}));
  ASSERT_OK(Lock(owner, {20, 29, false}));
  ASSERT_OK(Lock(owner, wire::FlockRange(true)));
  ASSERT_OK(Await(files_->opens().Close(owner.state_id)));
  EXPECT_TRUE(locked_.empty());
  EXPECT_EQ(server_.Count(Proc::kClose), 1);
}

// Shows DAFS-4.4.1.2-15
TEST_F(OtherLocksTest, AdjacentLocksAreLockedAndUnlockedSeparately) {
  MakeFiles();
  SplitNothing();
  const LockOwner owner = Open("f", "a");
  ASSERT_OK(Lock(owner, {0, 9, true}));
  ASSERT_OK(Lock(owner, {10, 19, true}));
  EXPECT_EQ(locked_, (std::vector<LockRange>{{0, 9, true}, {10, 19, true}}));
  ASSERT_OK(Unlock(owner, 0, 9));
  EXPECT_EQ(locked_, (std::vector<LockRange>{{10, 19, true}}));
  ASSERT_OK(Unlock(owner, 10, 19));
  EXPECT_TRUE(locked_.empty());
}

// Shows DAFS-4.4.1.2-37: a revocation within the lease affects one owner. The client does not even
// check the locks of the others. Shows DAFS-4.4.1.2-33: the I/O of the owner fails.
TEST_F(OtherLocksTest, RevokedLockAffectsItsOwnerOnly) {
  MakeFiles();
  const LockOwner loser = Open("lost", "a"), other = Open("kept", "b");
  ASSERT_OK(Lock(loser, {0, 9, true}));
  ASSERT_OK(Lock(other, {0, 9, true}));
  std::erase_if(server_.opens, [](const auto& open) { return open.second == "lost|a"; });
  server_.script = [this](ScriptedConnection& c, const Request& request) {
    // A revoked open can be neither used nor reclaimed.
    const bool io = request.header.procedure == Proc::kReadInline &&
                    !server_.opens.contains(
                        wire::OpaqueToUint64(request.Decode<wire::ReadInlineArgs>().state_id));
    if (!io && request.header.procedure != Proc::kOpen) return false;
    c.Refuse(request, DafsStatus::kExpired);
    return true;
  };
  EXPECT_FALSE(Read(loser).ok());
  EXPECT_FALSE(client_->opens().Find(loser.state_id)->lost.ok());
  EXPECT_EQ(server_.Count(Proc::kReadInline), 1);
  EXPECT_OK(client_->opens().Find(other.state_id)->lost);
  EXPECT_EQ(HeldBy(other), (std::vector<LockRange>{{0, 9, true}}));
  EXPECT_OK(Read(other));
}

// Shows DAFS-4.4.1.2-40: a lease starts when the renewing request is sent, however late its reply
// arrives. Shows DAFS-4.4.1.2-37: a reply of EXPIRED renews nothing.
TEST_F(OtherLocksTest, LeaseStartsWhenTheRenewingRequestIsSent) {
  MakeFiles();
  DafsStatus status = DafsStatus::kAcces;
  absl::Time asked, answered;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kAccess) return false;
    answered = Loop::Now();
    c.Refuse(request, status);
    return true;
  };
  const auto ask = [&](DafsStatus answer) {
    Await(loop_->Sleep(
        absl::Milliseconds(200)));  // the client does not record the time of every reply
    status = answer;
    asked = Loop::Now();
    const absl::Status refused =
        Await(files_->attributes().Access(user_, wire::FileHandle(), wire::kAccessRead)).status();
    EXPECT_EQ(wire::DafsFromStatus(refused), answer) << refused;
  };
  ask(DafsStatus::kAcces);  // connects and registers its credentials
  ask(DafsStatus::kAcces);
  EXPECT_GE(client_->last_activity(), asked);
  EXPECT_LE(client_->last_activity(), answered);
  ask(DafsStatus::kExpired);
  EXPECT_LT(client_->last_activity(), asked);
}

// Shows DAFS-6.5.18-07
TEST_F(OtherLocksTest, NoLockHasTheLengthZero) {
  MakeFiles();
  std::vector<uint64_t> lengths;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure == Proc::kLock) {
      lengths.push_back(request.Decode<wire::LockArgs>().length);
    } else if (request.header.procedure == Proc::kLocku) {
      lengths.push_back(request.Decode<wire::LockuArgs>().length);
    } else if (request.header.procedure == Proc::kLockt) {
      lengths.push_back(request.Decode<wire::LocktArgs>().length);
    }
    return false;
  };
  const LockOwner owner = Open("f", "a");
  constexpr uint64_t kEnd = wire::kFlockByte - 1;
  for (const LockRange& range :
       {LockRange{0, 0, true}, LockRange{7, 7, false}, LockRange{0, kEnd, true},
        LockRange{1, kEnd, true}, LockRange{kEnd - 1, kEnd, true}, wire::FlockRange(true)}) {
    ASSERT_OK(Lock(owner, range));
    ASSERT_OK(Await(files_->locks().TestLock(user_, owner.file, "b", range)));
    ASSERT_OK(Unlock(owner, range.first, range.last));
  }
  EXPECT_GE(lengths.size(), 18u);
  EXPECT_THAT(lengths, ::testing::Not(::testing::Contains(0u)));
}

// A server whose answers to LOCK are `status`, and which may know the private lock options.
class LockWaitTest : public OtherLocksTest {
 protected:
  void StartWaiting(bool announced, uint64_t extensions = wire::kExtensionLockWaits) {
    server_.script = [this, extensions](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure == Proc::kExtensions) {
        wire::ExtensionsRes res;
        res.granted = extensions;
        c.Answer(request, res);
        return true;
      }
      if (request.header.procedure != Proc::kLock) return false;
      const auto args = request.Decode<wire::LockArgs>();
      requests_.push_back(args.options);
      if (args.lock_type == wire::LockType::kAbort || status_ == DafsStatus::kOk) return false;
      c.Answer(request, holder_, status_);
      return true;
    };
    MakeFiles();
    holder_.owner_clientid = wire::OpaqueFromUint64<wire::ClientId>(99);
    holder_.length = 1;
    client_->locks().SetAnnounced(announced);
    owner_ = Open("f", "a");
    Start(Run());
  }
  Task<void> Run() {
    wait_ = std::make_unique<LockWait>(*loop_, [this] { return process_; });
    Task<absl::StatusOr<LockAnswer>> task =
        files_->locks().Lock(user_, owner_, range_, wait_.get());
    answer_ = co_await task;
    done_ = true;
  }
  // Whether the wait ends as expected once the server grants the lock.
  bool IsGranted() {
    return Until([this] { return done_; }) && answer_.ok() &&
           answer_->outcome == LockOutcome::kGranted;
  }
  // Longer than the pauses of a waiter that polls.
  void RunAWhile() { Await(loop_->Sleep(3 * LockWait::kPauseMost)); }
  bool HasAsked(size_t times) {
    return Until([&] { return requests_.size() >= times; });
  }

  static constexpr uint32_t kBoth = wire::kLockAwaits | wire::kLockOfProcess;
  uint64_t process_ = 1;
  DafsStatus status_ = DafsStatus::kDenied;
  wire::LockRes holder_;
  const LockRange range_{5, 9, true};
  std::vector<uint32_t> requests_;  // the options of each LOCK
  LockOwner owner_;
  std::unique_ptr<LockWait> wait_;
  absl::StatusOr<LockAnswer> answer_ = absl::UnknownError("waits");
  bool done_ = false;
};

TEST_F(LockWaitTest, WaiterSendsNothingUntilTheLockIsAnnounced) {
  StartWaiting(true);
  ASSERT_TRUE(HasAsked(2));
  RunAWhile();
  EXPECT_EQ(requests_, (std::vector<uint32_t>{0, kBoth}));
  client_->locks().Announce(owner_.file, 0, 5);  // another range
  RunAWhile();
  EXPECT_EQ(requests_.size(), 2u);
  status_ = DafsStatus::kOk;
  client_->locks().Announce(owner_.file, 5, 5);
  EXPECT_TRUE(IsGranted());
  EXPECT_EQ(requests_.size(), 3u);
}

// The announcement may arrive before the response to the LOCK that requested it.
TEST_F(LockWaitTest, EarlyAnnouncementIsNotLost) {
  StartWaiting(true);
  server_.script = [this, next = server_.script](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kLock && requests_.size() == 1) {
      client_->locks().Announce(owner_.file, 5, 5);
      next(c, request);
      status_ = DafsStatus::kOk;
      return true;
    }
    return next(c, request);
  };
  EXPECT_TRUE(IsGranted());
  EXPECT_EQ(requests_.size(), 3u);
}

TEST_F(LockWaitTest, WaiterAsksAtOnceWhenAnnouncementsBeginOrEnd) {
  StartWaiting(true);
  ASSERT_TRUE(HasAsked(2));
  RunAWhile();
  ASSERT_EQ(requests_.size(), 2u);
  client_->locks().SetAnnounced(false);
  ASSERT_TRUE(HasAsked(4));  // it polls
  EXPECT_EQ(requests_.back(), wire::kLockOfProcess);
  client_->locks().SetAnnounced(true);
  ASSERT_TRUE(Until([this] { return requests_.back() == kBoth; }));
  const size_t asked = requests_.size();
  RunAWhile();
  EXPECT_EQ(requests_.size(), asked);
  status_ = DafsStatus::kOk;
  client_->locks().SetAnnounced(true);  // after a reconnect
  EXPECT_TRUE(IsGranted());
}

// The server cannot see when a program of its machine releases a lock.
TEST_F(LockWaitTest, WaiterForALocalProgramPolls) {
  StartWaiting(true);
  ASSERT_TRUE(HasAsked(2));
  holder_.owner_clientid = wire::ClientId();
  client_->locks().SetAnnounced(true);  // to ask again
  ASSERT_TRUE(HasAsked(8));
  status_ = DafsStatus::kOk;
  EXPECT_TRUE(IsGranted());
}

TEST_F(LockWaitTest, ServerReportsADeadlock) {
  process_ = 7;
  StartWaiting(false);
  ASSERT_TRUE(HasAsked(2));
  EXPECT_EQ(requests_[1], wire::kLockOfProcess);
  status_ = DafsStatus::kDeadlock;
  ASSERT_TRUE(Until([this] { return done_; }));
  ASSERT_OK(answer_);
  EXPECT_EQ(answer_->outcome, LockOutcome::kDeadlock);
  EXPECT_TRUE(HeldBy(owner_).empty());
}

// A wait for flock(2) or for an OFD lock is not one of a process.
TEST_F(LockWaitTest, WaitWithoutAProcessIsInNoDeadlock) {
  process_ = 0;
  StartWaiting(true);
  ASSERT_TRUE(HasAsked(2));
  EXPECT_EQ(requests_[1], wire::kLockAwaits);
  status_ = DafsStatus::kOk;
  client_->locks().Announce(owner_.file, 5, 5);
  EXPECT_TRUE(IsGranted());
}

TEST_F(LockWaitTest, OtherServerGetsNoPrivateOption) {
  StartWaiting(true, 0);
  ASSERT_TRUE(HasAsked(4));
  status_ = DafsStatus::kOk;
  EXPECT_TRUE(IsGranted());
  EXPECT_THAT(requests_, ::testing::Each(0u));
}

}  // namespace
}  // namespace dafs::client::testing
