// Locks at servers that differ from dafsd: they split no locks, or revoke some. Also when the
// client assumes that its leases end. Spec: 4.4.1.2.
#include <vector>

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
    absl::StatusOr<OpenFile> opened = Await(files_->opens().Open(who_, request));
    EXPECT_OK(opened);
    return opened.ok() ? LockOwner{opened->handle, opened->state_id, 1} : LockOwner();
  }
  absl::Status Lock(const LockOwner& owner, const LockRange& range) {
    return Await(files_->locks().Lock(who_, owner, range)).status();
  }
  absl::Status Unlock(const LockOwner& owner, uint64_t first, uint64_t last) {
    return Await(files_->locks().Unlock(who_, owner, first, last));
  }
  absl::Status Read(const LockOwner& owner) {
    BufferLease lease = files_->buffers().TryAcquire(BufferUse::kReadTarget, 4096);
    return Await(files_->data().Read(who_, owner.file, owner.state_id, 0, lease, 100)).status();
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
        Await(files_->attributes().Access(who_, wire::FileHandle(), wire::kAccessRead)).status();
    EXPECT_EQ(wire::DafsFromStatus(refused), answer) << refused;
  };
  ask(DafsStatus::kAcces);  // connects and registers its credentials
  ask(DafsStatus::kAcces);
  EXPECT_GE(client_->last_activity(), asked);
  EXPECT_LE(client_->last_activity(), answered);
  ask(DafsStatus::kExpired);
  EXPECT_LT(client_->last_activity(), asked);
}

}  // namespace
}  // namespace dafs::client::testing
