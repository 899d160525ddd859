// Locks under delegations, without a server. Spec: WIRE 9.7.
#include "client/state/delegation_locks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "client/state/delegations.h"
#include "client/state/locks.h"
#include "client/state/opens.h"
#include "client/state/promises.h"
#include "runtime/loop/loop.h"

namespace dafs::client {
namespace {

using Unlocking = DelegationLocks::Unlocking;

class DelegationLocksTest : public ::testing::Test {
 protected:
  DelegationLocksTest() : delegations_(opens_, locks_, promises_, [] { return Loop::Now(); }) {
    promises_.Ask();
    EXPECT_TRUE(promises_.Begin(absl::Hours(1)));
  }

  // Opens a file under a new delegation.
  LockOwner OpenUnder(wire::OpenDelegationType type, bool only_clients = true) {
    OpenInfo info;
    info.handle.fileid.bytes[0] = 1;
    info.owner = "first";
    info.share_access =
        type == wire::OpenDelegationType::kRead ? wire::kShareRead : wire::kShareWrite;
    wire::OpenDelegation granted;
    granted.delegation_type = type;
    granted.delegation_state_id = wire::OpaqueFromUint64<wire::StateId>(1001);
    granted.permissions_acemask = 1;
    LockOwner owner;
    owner.file = info.handle;
    owner.state_id = delegations_.Granted(info, granted, wire::OpaqueFromUint64<wire::ClientId>(1),
                                          promises_.sequence());
    delegations_.Settle(owner.state_id, only_clients, "7");
    return owner;
  }
  bool IsGranted(const LockOwner& owner, const wire::LockRange& range) {
    const std::optional<LockAnswer> answer = delegations_.locks().Lock(owner, range, nullptr);
    return answer.has_value() && answer->outcome == LockOutcome::kGranted;
  }

  Opens opens_;
  Locks locks_;
  Promises promises_;
  Delegations delegations_;
};

constexpr wire::LockRange kReadLock{0, 9, false};
constexpr wire::LockRange kWriteLock{0, 9, true};

TEST_F(DelegationLocksTest, ReadDelegationGrantsReadLocksOnly) {
  const LockOwner owner = OpenUnder(wire::OpenDelegationType::kRead);
  EXPECT_FALSE(delegations_.locks().HasReadLocks());
  EXPECT_TRUE(IsGranted(owner, kReadLock));
  EXPECT_FALSE(IsGranted(owner, kWriteLock));
  EXPECT_TRUE(delegations_.locks().HasReadLocks());
  EXPECT_EQ(delegations_.locks().Unlock(owner, 0, 9), Unlocking::kDone);
  EXPECT_FALSE(delegations_.locks().HasReadLocks());
  EXPECT_EQ(delegations_.counts().local_locks, 1u);
}

TEST_F(DelegationLocksTest, ServerProgramsMayLockSoLocksNeedRequests) {
  const LockOwner owner = OpenUnder(wire::OpenDelegationType::kWrite, /*only_clients=*/false);
  EXPECT_FALSE(IsGranted(owner, kWriteLock));
}

TEST_F(DelegationLocksTest, LocksCannotChangeWhileTheirOpenBecomesReal) {
  const LockOwner owner = OpenUnder(wire::OpenDelegationType::kWrite);
  EXPECT_TRUE(IsGranted(owner, kWriteLock));
  EXPECT_NE(delegations_.locks().BeginMakingReal(owner.state_id).lender, nullptr);
  EXPECT_TRUE(delegations_.locks().BeginMakingReal(owner.state_id).is_busy);
  EXPECT_EQ(delegations_.locks().Unlock(owner, 0, 9), Unlocking::kBusy);
  EXPECT_FALSE(IsGranted(owner, {20, 29, true}));
  delegations_.locks().EndMakingReal(owner.state_id);
  EXPECT_EQ(delegations_.locks().Unlock(owner, 0, 9), Unlocking::kDone);
}

// The server does not know the lock yet.
TEST_F(DelegationLocksTest, TestLockReportsALockOfAnotherLocalOpenDuringARecall) {
  const LockOwner owner = OpenUnder(wire::OpenDelegationType::kWrite);
  EXPECT_TRUE(IsGranted(owner, kWriteLock));
  EXPECT_EQ(delegations_.returns().Recall(owner.file, wire::OpaqueFromUint64<wire::StateId>(1001)),
            wire::DafsStatus::kOk);
  const auto conflict = delegations_.locks().TestLock(owner.file, "second", kReadLock);
  ASSERT_TRUE(conflict.has_value());
  ASSERT_TRUE(conflict->has_value());
  EXPECT_EQ((*conflict)->owner, "first");
  EXPECT_FALSE(delegations_.locks().TestLock(owner.file, "first", kReadLock).has_value());
}

}  // namespace
}  // namespace dafs::client
