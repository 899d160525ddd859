// Open delegations: which are granted, what recalls them, and how they end.
// Spec: 6.5.10, 6.5.11, 6.5.24, 6.6.4.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/loop/loop.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/delegations/holder_values.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/holdings.h"
#include "server/store/holdings/promises/promises.h"
#include "tests/server/store/promises_fixture.h"
#include "wire/messages/messages.h"
#include "wire/protocol/lock_ranges.h"

namespace dafs::server {
namespace {

using Type = Delegations::Type;
using testing::IsEmpty;
using testing::SizeIs;

class GrantTest : public PromisesTest {
 protected:
  void SetUp() override {
    PromisesTest::SetUp();
    if (IsSkipped()) return;
    WriteFile(Path("a/f"), "content", 0666);
    exports_[0].only_clients_change = true;
    ServeAgain();
  }
  void ServeAgain() {
    Serve();
    root_.client_name = user_.client_name = "one";
    other_.client_name = "two";
    root_.awaited = user_.awaited = other_.awaited = &awaited_;
    store_->delegations().SetRecaller([this](const auto& recall) { recalls_.push_back(recall); });
    store_->holder_values().SetAsker([this](const auto& asked) { asked_.push_back(asked); });
    file_ = Handle({"a", "f"});
  }
  wire::OpenDelegatedRes OpenDelegated(const Caller& caller, uint32_t access,
                                       Type want = Type::kWrite, std::string owner = "owner") {
    wire::OpenDelegatedArgs args;
    args.filehandle = file_;
    args.share_access = access;
    args.owner = owner;
    args.want = want;
    wire::OpenDelegatedRes res;
    EXPECT_OK(store_->opens().OpenDelegated(caller, args, &res));
    EXPECT_EQ(res.recall, false);
    return res;
  }
  wire::StateId Delegated(const Caller& caller, uint32_t access, Type expected) {
    const wire::OpenDelegatedRes res = OpenDelegated(caller, access);
    EXPECT_EQ(res.delegation_type, expected);
    // Only the delegation is left.
    EXPECT_OK(Close(caller, {file_, res.state_id}));
    return res.delegation_state_id;
  }
  DafsStatus Return(const Caller& caller, const wire::StateId& state_id) {
    wire::DelegreturnArgs args;
    args.state_id = state_id;
    return store_->opens().Delegreturn(caller, args);
  }
  DafsStatus OpenAs(const Caller& caller, uint32_t access, uint32_t deny = 0) {
    wire::OpenHandleArgs args;
    args.filehandle = file_;
    args.share_access = access;
    args.share_deny = deny;
    args.owner = "open";
    return store_->opens().OpenHandle(caller, args, &opened_);
  }
  // An open in place of which a delegation is wanted.
  wire::OpenDelegatedRes OpenXor(const Caller& caller, uint32_t access,
                                 std::string owner = "owner") {
    return OpenDelegated(caller, access | kWish, Type::kWrite, std::move(owner));
  }
  wire::OpenRes OpenXor(const Caller& caller, wire::OpenArgs args) {
    args.share_access |= kWish;
    wire::OpenRes res;
    EXPECT_OK(store_->opens().Open(caller, args, &res));
    return res;
  }
  DafsStatus Downgrade(const Caller& caller, const wire::StateId& state_id,
                       uint32_t access = wire::kShareRead, uint32_t deny = 0) {
    wire::OpenDowngradeArgs args;
    args.filehandle = file_;
    args.state_id = state_id;
    args.share_access = access;
    args.share_deny = deny;
    return store_->opens().OpenDowngrade(caller, args);
  }
  // By the open that was made last; of flock(2), which needs no access.
  DafsStatus LockAs(const Caller& caller, wire::LockType type, uint32_t options = 0) {
    const wire::LockRange range = wire::FlockRange(false);
    wire::LockArgs args;
    args.filehandle = file_;
    args.state_id = opened_.state_id;
    args.options = options;
    args.lock_type = type;
    args.offset = range.first;
    args.length = wire::LengthOf(range);
    wire::LockRes res;
    return store_->locks().Lock(caller, args, &res);
  }
  size_t held() const { return store_->delegations().GetCounts().held; }
  // `request` of another client must wait until the delegation is returned. Then it succeeds.
  void ExpectRecall(Type type, const std::function<DafsStatus(const Caller&)>& request) {
    ServeAgain();
    recalls_.clear();
    const wire::StateId state_id =
        Delegated(root_, type == Type::kWrite ? wire::kShareBoth : wire::kShareRead, type);
    awaited_.clear();
    EXPECT_DAFS(kDelay, request(other_));
    ASSERT_THAT(awaited_, SizeIs(1));
    ASSERT_THAT(recalls_, SizeIs(1));
    EXPECT_EQ(recalls_[0].state_id, state_id);
    EXPECT_EQ(recalls_[0].client_name, "one");
    EXPECT_EQ(store_->HandleOf(recalls_[0].key), file_);
    bool ended = false;
    store_->delegations().Await(awaited_[0], [&] { ended = true; });
    EXPECT_OK(Return(root_, state_id));
    EXPECT_TRUE(ended);
    EXPECT_OK(request(other_));
    EXPECT_THAT(recalls_, SizeIs(1));
  }

  static constexpr uint32_t kWish = wire::kShareWantOpenXorDelegation;
  wire::FileHandle file_;
  wire::OpenHandleRes opened_;
  AwaitedDelegations awaited_;
  std::vector<DelegationRecall> recalls_;
  std::vector<Delegation> asked_;
};

// Shows DAFS-6.5.24-17
TEST_F(GrantTest, AnOpenForReadingGetsAReadDelegationAndOneForWritingAWriteDelegation) {
  EXPECT_EQ(OpenDelegated(root_, wire::kShareRead, Type::kNone).delegation_type, Type::kNone);
  const wire::StateId read = Delegated(root_, wire::kShareRead, Type::kRead);
  const wire::StateId second = Delegated(other_, wire::kShareRead, Type::kRead);
  EXPECT_OK(Return(root_, read));
  EXPECT_OK(Return(other_, second));
  EXPECT_EQ(OpenDelegated(root_, wire::kShareWrite, Type::kRead).delegation_type, Type::kNone);
  Delegated(root_, wire::kShareWrite, Type::kWrite);
  EXPECT_THAT(recalls_, IsEmpty());
}

TEST_F(GrantTest, NoDelegationOfAFileThatIsShared) {
  // Another client has it open for writing.
  ASSERT_OK(OpenAs(other_, wire::kShareWrite));
  Delegated(root_, wire::kShareRead, Type::kNone);
  Delegated(root_, wire::kShareWrite, Type::kNone);
  ASSERT_OK(Close(other_, {file_, opened_.state_id}));
  // Another client has it open for reading.
  ASSERT_OK(OpenAs(other_, wire::kShareRead));
  Delegated(root_, wire::kShareWrite, Type::kNone);
  ASSERT_OK(Close(other_, {file_, opened_.state_id}));
  // An open denies something.
  ASSERT_OK(OpenAs(root_, wire::kShareRead, wire::kShareWrite));
  Delegated(root_, wire::kShareRead, Type::kNone);
  ASSERT_OK(Close(root_, {file_, opened_.state_id}));
  Delegated(root_, wire::kShareWrite, Type::kWrite);
}

TEST_F(GrantTest, OnlyAClientThatCanBeCalledAndUsesDelegationsGetsOne) {
  wire::OpenRes res;
  ASSERT_OK(store_->opens().Open(root_, OpenArgs(A(), "f"), &res));
  EXPECT_EQ(res.delegation_type, Type::kNone) << "it has not shown that it knows delegations";
  EXPECT_OK(store_->opens().Delegpurge(root_, {}));
  ASSERT_OK(store_->opens().Open(root_, OpenArgs(A(), "f"), &res));
  EXPECT_EQ(res.delegation_type, Type::kWrite);
  EXPECT_OK(Return(root_, res.delegation_state_id));
  Caller mute = root_;
  mute.promisee = 0;
  EXPECT_EQ(OpenDelegated(mute, wire::kShareRead).delegation_type, Type::kNone);
  store_->promises().Void(root_.promisee);
  EXPECT_EQ(OpenDelegated(root_, wire::kShareRead).delegation_type, Type::kNone);
}

// Shows DAFS-6.5.24-20, DAFS-6.5.24-21
TEST_F(GrantTest, ADelegationStatesItsSpaceAndWhoseOpensItCovers) {
  wire::OpenDelegatedRes res = OpenDelegated(user_, wire::kShareBoth);
  EXPECT_EQ(res.delegation_type, Type::kWrite);
  EXPECT_EQ(res.limitby, wire::LimitBy::kSize);
  EXPECT_GT(res.filesize, 7u);
  EXPECT_EQ(res.permissions_acetype, wire::kAceAllowed);
  EXPECT_EQ(res.permissions_acemask, 7u);  // read, write and append data
  EXPECT_EQ(res.delegation_who, "1000");
  EXPECT_OK(Return(user_, res.delegation_state_id));
  EXPECT_OK(Close(user_, {file_, res.state_id}));
  res = OpenDelegated(user_, wire::kShareRead);
  EXPECT_EQ(res.delegation_type, Type::kRead);
  EXPECT_EQ(res.permissions_acemask, 1u);
}

// Shows DAFS-6.6.4-01, DAFS-7-06
TEST_F(GrantTest, ConflictingRequestsOfOthersRecall) {
  const auto open_to_read = [&](const Caller& c) { return OpenAs(c, wire::kShareRead); };
  const auto open_to_write = [&](const Caller& c) { return OpenAs(c, wire::kShareWrite); };
  const auto open_by_path = [&](const Caller& c) {
    wire::OpenRes res;
    return store_->opens().Open(c, OpenArgs(A(), "f"), &res);
  };
  const auto open_to_deny = [&](const Caller& c) {
    return OpenAs(c, wire::kShareRead, wire::kShareWrite);
  };
  const auto truncate = [&](const Caller& c) {
    wire::FileAttributes attributes;
    attributes.set(wire::kFattrObjectSize);
    uint64_t set = 0;
    return store_->attributes().Setattr(c, file_, {}, attributes, &set);
  };
  const auto write = [&](const Caller& c) { return Write(c, {file_, {}}, 0, "x"); };
  const auto link = [&](const Caller& c) {
    unlink(Path("a/g").c_str());
    wire::LinkArgs args;
    args.source_object = file_;
    args.destination_object = A();
    args.newname = "g";
    wire::LinkRes res;
    return store_->names().Link(c, args, &res);
  };
  ExpectRecall(Type::kRead, open_to_write);
  ExpectRecall(Type::kRead, open_by_path);
  ExpectRecall(Type::kRead, open_to_deny);
  ExpectRecall(Type::kRead, truncate);
  ExpectRecall(Type::kRead, write);
  ExpectRecall(Type::kWrite, open_to_read);
  ExpectRecall(Type::kWrite, open_to_write);
  ExpectRecall(Type::kWrite, truncate);
  ExpectRecall(Type::kWrite, write);
  Caller root_of_other = root_;
  root_of_other.client_id = other_.client_id;
  ExpectRecall(Type::kWrite, [&](const Caller&) { return link(root_of_other); });
  ExpectRecall(Type::kRead, [&](const Caller& c) {
    WriteFile(Path("a/over"), "", 0666);
    return Rename(c, A(), "over", A(), "f");
  });
  WriteFile(Path("a/f"), "content", 0666);
  ExpectRecall(Type::kRead, [&](const Caller& c) { return Remove(c, A(), "f"); });
}

// The holder may have locks that the server does not know.
TEST_F(GrantTest, AWriteLockOfAnotherClientRecallsReadDelegations) {
  ASSERT_OK(OpenAs(other_, wire::kShareRead));
  const wire::StateId state_id = Delegated(root_, wire::kShareRead, Type::kRead);
  EXPECT_OK(LockAs(other_, wire::LockType::kRead));
  EXPECT_THAT(recalls_, IsEmpty());
  EXPECT_DAFS(kDelay, LockAs(other_, wire::LockType::kWrite));
  EXPECT_THAT(recalls_, SizeIs(1));
  EXPECT_OK(Return(root_, state_id));
  EXPECT_OK(LockAs(other_, wire::LockType::kWrite));
}

TEST_F(GrantTest, ATestOfALockWaitsForHiddenLocks) {
  wire::LocktArgs test;
  test.filehandle = file_;
  test.owner = "owner";
  test.length = 1;
  test.lock_type = wire::LockType::kRead;
  wire::LocktRes res;
  wire::StateId state_id = Delegated(root_, wire::kShareRead, Type::kRead);
  EXPECT_OK(store_->locks().Lockt(other_, test, &res));
  test.lock_type = wire::LockType::kWrite;
  EXPECT_DAFS(kDelay, store_->locks().Lockt(other_, test, &res));
  EXPECT_OK(Return(root_, state_id));
  ServeAgain();
  state_id = Delegated(root_, wire::kShareWrite, Type::kWrite);
  test.filehandle = file_;
  test.lock_type = wire::LockType::kRead;
  EXPECT_OK(store_->locks().Lockt(root_, test, &res)) << "its own";
  EXPECT_DAFS(kDelay, store_->locks().Lockt(other_, test, &res));
  EXPECT_OK(Return(root_, state_id));
  EXPECT_OK(store_->locks().Lockt(other_, test, &res));
}

TEST_F(GrantTest, NoReadDelegationBesideAWriteLockOfAnotherClient) {
  ASSERT_OK(OpenAs(other_, wire::kShareRead));
  EXPECT_OK(LockAs(other_, wire::LockType::kWrite));
  Delegated(root_, wire::kShareRead, Type::kNone);
  Delegated(other_, wire::kShareRead, Type::kRead);
}

// A client with delegations may have had locks that the earlier instance did not know.
TEST_F(GrantTest, AfterARestartLocksWaitForThoseUnderDelegations) {
  Holdings lost = {};
  root_.holdings = &lost;
  lost.lost_opens = 1;
  Grace::Owed owed;
  owed.expected = {{"one", &lost, true}};
  store_->grace().Start(std::move(owed), Loop::Now() + absl::Hours(1));
  ASSERT_OK(OpenAs(other_, wire::kShareRead));
  EXPECT_DAFS(kGrace, LockAs(other_, wire::LockType::kWrite));
  const wire::StateId others = opened_.state_id;
  wire::OpenArgs claim = OpenArgs(A(), "f", wire::kShareRead);
  claim.claim_type = wire::OpenClaimType::kPrevious;
  claim.filehandle = file_;
  wire::OpenRes res;
  EXPECT_OK(store_->opens().Open(root_, claim, &res));
  opened_.state_id = res.state_id;
  EXPECT_OK(LockAs(root_, wire::LockType::kRead, wire::kLockReclaim));
  opened_.state_id = others;
  EXPECT_DAFS(kGrace, LockAs(other_, wire::LockType::kWrite)) << "more claims may follow";
  EXPECT_OK(store_->opens().Delegpurge(root_, {}));
  EXPECT_DAFS(kDenied, LockAs(other_, wire::LockType::kWrite));
}

TEST_F(GrantTest, ReadersAndTheHolderItselfRecallNothing) {
  const wire::StateId state_id = Delegated(root_, wire::kShareRead, Type::kRead);
  EXPECT_OK(OpenAs(other_, wire::kShareRead));
  EXPECT_OK(Close(other_, {file_, opened_.state_id}));
  EXPECT_OK(OpenAs(root_, wire::kShareWrite));
  EXPECT_OK(Close(root_, {file_, opened_.state_id}));
  EXPECT_OK(Write(root_, {file_, {}}, 0, "x"));
  EXPECT_THAT(recalls_, IsEmpty());
  EXPECT_OK(Return(root_, state_id));
}

// The state id of a delegation is as good as that of an open, as far as its type permits.
TEST_F(GrantTest, TheStateIdOfADelegationPermitsReadingAndWriting) {
  const wire::StateId write = Delegated(user_, wire::kShareBoth, Type::kWrite);
  chmod(Path("a/f").c_str(), 0);
  EXPECT_OK(Write(user_, {file_, write}, 0, "CONTENT"));
  EXPECT_EQ(Read(user_, {file_, write}, 0, 7), "CONTENT");
  wire::FileAttributes size;
  size.set(wire::kFattrObjectSize);
  uint64_t set = 0;
  EXPECT_OK(store_->attributes().Setattr(user_, file_, write, size, &set));
  EXPECT_DAFS(kBadStateId, Write(other_, {file_, write}, 0, "x"));
  EXPECT_DAFS(kBadStateId, Close(user_, {file_, write})) << "it is no open";
  wire::OpenOwnerArgs again;
  again.filehandle = file_;
  again.state_id = write;
  again.owner = "local";
  wire::OpenOwnerRes opened;
  EXPECT_OK(store_->locks().OpenOwner(user_, again, &opened)) << "for an open without a message";
  EXPECT_OK(Close(user_, {file_, opened.state_id}));
  EXPECT_OK(Return(user_, write));
  EXPECT_DAFS(kBadStateId, Write(user_, {file_, write}, 0, "x"));
  chmod(Path("a/f").c_str(), 0666);
  const wire::StateId read = Delegated(user_, wire::kShareRead, Type::kRead);
  EXPECT_DAFS(kAcces, Write(user_, {file_, read}, 0, "x"));
}

TEST_F(GrantTest, ADelegationKeepsAFileThatItsHolderRemoves) {
  const wire::StateId write = Delegated(root_, wire::kShareBoth, Type::kWrite);
  EXPECT_OK(Remove(root_, A(), "f"));
  EXPECT_THAT(recalls_, IsEmpty());
  EXPECT_EQ(Read(root_, {file_, write}, 0, 7), "content");
  EXPECT_OK(Return(root_, write));
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale, store_->attributes().Getattr(root_, file_, wire::kFattrAll, &attributes));
}

// Shows DAFS-6.5.11-01, DAFS-6.5.11-02
TEST_F(GrantTest, OnlyACurrentDelegationIsReturned) {
  const wire::StateId first = Delegated(root_, wire::kShareRead, Type::kRead);
  EXPECT_DAFS(kBadStateId, Return(other_, first));
  EXPECT_OK(Return(root_, first));
  EXPECT_DAFS(kBadStateId, Return(root_, first));
  const wire::StateId second = Delegated(root_, wire::kShareRead, Type::kRead);
  EXPECT_DAFS(kOldStateId, Return(root_, first));
  EXPECT_DAFS(kBadStateId, Return(root_, {}));
  EXPECT_OK(OpenAs(root_, wire::kShareRead));
  EXPECT_DAFS(kBadStateId, Return(root_, opened_.state_id)) << "an open is not a delegation";
  ServeAgain();
  EXPECT_DAFS(kStaleStateId, Return(root_, second));
}

TEST_F(GrantTest, ARevokedDelegationHasExpired) {
  const wire::StateId write = Delegated(root_, wire::kShareBoth, Type::kWrite);
  EXPECT_DAFS(kDelay, OpenAs(other_, wire::kShareRead));
  ASSERT_THAT(recalls_, SizeIs(1));
  store_->releases().RevokeDelegation(recalls_[0]);
  EXPECT_DAFS(kExpired, Write(root_, {file_, write}, 0, "x"));
  EXPECT_DAFS(kBadStateId, Return(root_, write));
  EXPECT_OK(OpenAs(other_, wire::kShareRead));
}

TEST_F(GrantTest, AClientWithAnExpiredLeaseIsNotWaitedFor) {
  Holdings held = {};
  root_.holdings = &held;
  const wire::StateId write = Delegated(root_, wire::kShareBoth, Type::kWrite);
  EXPECT_EQ(held.opens, 1u);
  EXPECT_DAFS(kDelay, OpenAs(other_, wire::kShareRead));
  ASSERT_THAT(recalls_, SizeIs(1));
  store_->releases().RevokeExpired(recalls_[0]);
  EXPECT_DAFS(kDelay, OpenAs(other_, wire::kShareRead));
  held.expired = 1;
  store_->releases().RevokeExpired(recalls_[0]);
  EXPECT_OK(OpenAs(other_, wire::kShareRead));
  EXPECT_DAFS(kExpired, Write(root_, {file_, write}, 0, "x"));
  EXPECT_EQ(held.opens, 0u);
}

TEST_F(GrantTest, TheDelegationsOfAClientThatIsGoneEnd) {
  Delegated(root_, wire::kShareBoth, Type::kWrite);
  store_->releases().ReleaseClient(root_.client_id);
  EXPECT_OK(OpenAs(other_, wire::kShareWrite));
  EXPECT_THAT(recalls_, IsEmpty());
  EXPECT_EQ(store_->delegations().GetCounts().held, 0u);
}

// Shows DAFS-6.5.24-15
TEST_F(GrantTest, ADelegationIsClaimedWhileItIsRecalled) {
  const wire::StateId write = Delegated(root_, wire::kShareBoth, Type::kWrite);
  EXPECT_DAFS(kDelay, OpenAs(other_, wire::kShareRead));
  wire::OpenArgs args = OpenArgs(A(), "f", wire::kShareWrite);
  args.claim_type = wire::OpenClaimType::kDelegateCur;
  args.claimdelcur_stateid = write;
  wire::OpenRes res;
  EXPECT_DAFS(kBadStateId, store_->opens().Open(other_, args, &res));
  EXPECT_OK(store_->opens().Open(root_, args, &res));
  EXPECT_EQ(res.delegation_type, Type::kNone);
  EXPECT_OK(Return(root_, write));
  EXPECT_OK(Write(root_, {file_, res.state_id}, 0, "x"));
  EXPECT_DAFS(kBadStateId, store_->opens().Open(root_, args, &res)) << "it was returned";
}

TEST_F(GrantTest, AReadDelegationCannotBeClaimedForWriting) {
  wire::OpenArgs args = OpenArgs(A(), "f", wire::kShareWrite);
  args.claim_type = wire::OpenClaimType::kDelegateCur;
  args.claimdelcur_stateid = Delegated(root_, wire::kShareRead, Type::kRead);
  wire::OpenRes res;
  EXPECT_DAFS(kAcces, store_->opens().Open(root_, args, &res));
  args.share_access = wire::kShareRead;
  EXPECT_OK(store_->opens().Open(root_, args, &res));
}

// Shows DAFS-6.5.24-16, DAFS-6.5.10-01, DAFS-6.5.10-03
TEST_F(GrantTest, ALaterInstanceOfTheClientClaimsOrPurgesWriteDelegations) {
  Caller later = root_;
  for (const bool purges : {false, true}) {
    ServeAgain();
    recalls_.clear();
    Delegated(root_, wire::kShareBoth, Type::kWrite);
    later.client_id = wire::OpaqueFromUint64<wire::ClientId>(7);
    store_->releases().SupersedeClient(root_.client_id, later.client_id, "one");
    EXPECT_DAFS(kDelay, OpenAs(other_, wire::kShareRead)) << "it may be claimed";
    wire::OpenArgs args = OpenArgs(A(), "f");
    args.claim_type = wire::OpenClaimType::kDelegatePrev;
    wire::OpenRes res;
    EXPECT_DAFS(kExpired, store_->opens().Open(other_, args, &res));
    if (purges) {
      EXPECT_OK(store_->opens().Delegpurge(later, {}));
      EXPECT_DAFS(kExpired, store_->opens().Open(later, args, &res));
      EXPECT_OK(OpenAs(other_, wire::kShareRead));
      continue;
    }
    EXPECT_OK(store_->opens().Open(later, args, &res));
    EXPECT_EQ(res.delegation_type, Type::kWrite);
    EXPECT_DAFS(kDelay, OpenAs(other_, wire::kShareRead));
    EXPECT_OK(Return(later, res.delegation_state_id));
    EXPECT_DAFS(kExpired, store_->opens().Open(later, args, &res)) << "it was claimed before";
  }
}

// Shows DAFS-6.5.24-18
TEST_F(GrantTest, AClientGetsWhatItClaimsAfterARestart) {
  Holdings lost[2] = {};
  root_.holdings = &lost[0];
  other_.holdings = &lost[1];
  lost[0].lost_opens = lost[1].lost_opens = 2;
  Grace::Owed owed;
  owed.expected = {{"one", &lost[0], true}, {"two", &lost[1], true}};
  store_->grace().Start(std::move(owed), Loop::Now() + absl::Hours(1));
  wire::OpenArgs args = OpenArgs(A(), "f", wire::kShareRead);
  args.claim_type = wire::OpenClaimType::kPrevious;
  args.filehandle = file_;
  args.delegate_type = Type::kRead;
  Caller mute = root_;
  mute.promisee = 0;  // it claims before it sends PROMISES
  wire::OpenRes res, again;
  EXPECT_OK(store_->opens().Open(mute, args, &res));
  EXPECT_EQ(res.delegation_type, Type::kRead);
  EXPECT_FALSE(res.recall);
  EXPECT_OK(store_->opens().Open(mute, args, &again));
  EXPECT_EQ(again.delegation_state_id, res.delegation_state_id) << "the same claim again";
  EXPECT_EQ(lost[0].opens, 2u) << "the open and the delegation";
  args.owner = "second";
  EXPECT_OK(store_->opens().Open(mute, args, &again));
  EXPECT_TRUE(store_->grace().expects_opens(KeyOf(file_)))
      << "any number of opens under the delegation";

  args.delegate_type = Type::kWrite;
  EXPECT_OK(store_->opens().Open(other_, args, &again));
  EXPECT_EQ(again.delegation_type, Type::kWrite);
  EXPECT_TRUE(again.recall);
  EXPECT_EQ(recalls_.back().state_id, again.delegation_state_id);

  EXPECT_OK(store_->opens().Delegpurge(mute, {}));
  EXPECT_TRUE(store_->grace().expects_opens(KeyOf(file_))) << "of the other client";
  EXPECT_OK(store_->opens().Delegpurge(other_, {}));
  EXPECT_FALSE(store_->grace().active());
}

// Shows DAFS-6.6.3-03
TEST_F(GrantTest, GetattrOfAnotherClientReportsTheHoldersValues) {
  const wire::StateId write = Delegated(root_, wire::kShareBoth, Type::kWrite);
  wire::FileAttributes attributes;
  awaited_.clear();
  EXPECT_OK(store_->attributes().Getattr(root_, file_, wire::kFattrAll, &attributes));
  EXPECT_THAT(asked_, IsEmpty()) << "the holder asks itself";
  EXPECT_DAFS(kDelay, store_->attributes().Getattr(other_, file_, wire::kFattrAll, &attributes));
  ASSERT_THAT(asked_, SizeIs(1));
  ASSERT_THAT(awaited_, SizeIs(1));
  EXPECT_TRUE(awaited_[0].answer);
  awaited_.clear();
  const uint64_t change = attributes.change + 5;
  store_->holder_values().SetReported(
      write, {.change = change, .size = 100, .time_modify = wire::Time{1, 0}}, Loop::Now());
  EXPECT_OK(store_->attributes().Getattr(other_, file_, wire::kFattrAll, &attributes));
  EXPECT_EQ(attributes.change, change);
  EXPECT_EQ(attributes.object_size, 100u);
  EXPECT_GT(attributes.time_modify.seconds, 1) << "only raised";
  EXPECT_THAT(recalls_, IsEmpty());
}

// ---- In place of opens, WIRE 9.7 ----

TEST_F(GrantTest, ADelegationTakesThePlaceOfAnOpen) {
  Holdings counts = {};
  root_.holdings = &counts;
  wire::OpenDelegatedRes read = OpenXor(root_, wire::kShareRead);
  EXPECT_EQ(read.delegation_type, Type::kRead);
  EXPECT_TRUE(read.state_id.is_zero());
  EXPECT_EQ(counts.opens, 1u) << "the delegation alone";
  EXPECT_EQ(Read(root_, {file_, read.delegation_state_id}), "content");
  EXPECT_OK(Return(root_, read.delegation_state_id));
  EXPECT_EQ(counts.opens, 0u);
  const wire::OpenRes written = OpenXor(root_, OpenArgs(A(), "f"));
  EXPECT_EQ(written.delegation_type, Type::kWrite);
  EXPECT_TRUE(written.state_id.is_zero());
  EXPECT_EQ(written.filehandle, file_);
  EXPECT_OK(Return(root_, written.delegation_state_id));
  const wire::OpenRes made = OpenXor(root_, CreateArgs(A(), "new"));
  EXPECT_EQ(made.delegation_type, Type::kWrite);
  EXPECT_TRUE(made.state_id.is_zero());
  EXPECT_OK(Write(root_, {made.filehandle, made.delegation_state_id}, 0, "x"));
  EXPECT_EQ(counts.opens, 1u);
  wire::OpenArgs unlinked = CreateArgs(A(), "");
  unlinked.pathname = {};
  unlinked.claim_type = wire::OpenClaimType::kCreateUnlinked;
  const wire::OpenRes nameless = OpenXor(root_, unlinked);
  EXPECT_EQ(nameless.delegation_type, Type::kWrite);
  EXPECT_TRUE(nameless.state_id.is_zero());
  EXPECT_OK(Write(root_, {nameless.filehandle, nameless.delegation_state_id}, 0, "x"));
  EXPECT_OK(Return(root_, nameless.delegation_state_id));
  wire::FileAttributes attributes;
  EXPECT_DAFS(kStale, store_->attributes().Getattr(root_, nameless.filehandle, wire::kFattrAll,
                                                   &attributes));
}

TEST_F(GrantTest, RequestingADelegationAdmitsTheClient) {
  EXPECT_EQ(OpenXor(root_, OpenArgs(A(), "f", wire::kShareRead)).delegation_type, Type::kRead);
}

TEST_F(GrantTest, ARefusedDelegationRequestBecomesAnOpen) {
  ASSERT_OK(OpenAs(other_, wire::kShareRead));
  wire::OpenDelegatedRes res = OpenXor(root_, wire::kShareWrite);
  EXPECT_EQ(res.delegation_type, Type::kNone);
  EXPECT_OK(Write(root_, {file_, res.state_id}, 0, "x"));
  EXPECT_OK(Close(root_, {file_, res.state_id}));
  wire::OpenArgs denies = OpenArgs(A(), "f", wire::kShareRead);
  denies.share_deny = wire::kShareWrite;
  const wire::OpenRes denied = OpenXor(root_, denies);
  EXPECT_EQ(denied.delegation_type, Type::kNone);
  EXPECT_OK(Close(root_, {file_, denied.state_id}));
  // Nor is one granted beside the open.
  Caller mute = root_;
  mute.promisee = 0;
  res = OpenXor(mute, wire::kShareRead);
  EXPECT_EQ(res.delegation_type, Type::kNone);
  EXPECT_OK(Close(mute, {file_, res.state_id}));
  EXPECT_EQ(held(), 0u);
}

TEST_F(GrantTest, AnOpenForWritingMakesTheReadDelegationOfItsClientOneForWriting) {
  const wire::StateId read = OpenXor(root_, wire::kShareRead).delegation_state_id;
  EXPECT_DAFS(kAcces, Write(root_, {file_, read}, 0, "x"));
  const wire::OpenDelegatedRes written = OpenXor(root_, wire::kShareWrite);
  EXPECT_EQ(written.delegation_type, Type::kWrite);
  EXPECT_EQ(written.delegation_state_id, read);
  EXPECT_TRUE(written.state_id.is_zero());
  EXPECT_EQ(held(), 1u);
  EXPECT_OK(Write(root_, {file_, read}, 0, "C"));
  EXPECT_EQ(Read(root_, {file_, read}), "Content");
  // Another wish is an open, and the delegation stays.
  for (const uint32_t access : {wire::kShareRead, wire::kShareWrite}) {
    const wire::OpenDelegatedRes again = OpenXor(root_, access, "again");
    EXPECT_EQ(again.delegation_type, Type::kNone);
    EXPECT_OK(Close(root_, {file_, again.state_id}));
  }
  EXPECT_DAFS(kDelay, OpenAs(other_, wire::kShareRead));
  EXPECT_OK(Return(root_, read));
}

// An open of the same client that gets no delegation ends only a read delegation.
TEST_F(GrantTest, OpensThatOverlapLeaveAWriteDelegationToItsWriter) {
  const auto write = [&](const std::string& owner) {
    Caller caller = root_;
    uint16_t bits = 0;
    AwaitedDelegations awaited;
    caller.promises = &bits;
    caller.awaited = &awaited;
    for (int i = 0; i < 2000 && !HasFailure(); ++i) {
      const wire::OpenDelegatedRes res = OpenXor(caller, wire::kShareWrite, owner);
      if (res.delegation_type == Type::kWrite) {
        EXPECT_OK(Write(caller, {file_, res.delegation_state_id}, 0, "x"));
        EXPECT_OK(Downgrade(caller, res.delegation_state_id));
      } else {
        EXPECT_OK(Write(caller, {file_, res.state_id}, 0, "x"));
        EXPECT_OK(Close(caller, {file_, res.state_id}));
      }
    }
    Store::RestoreServerIdentity();
  };
  std::vector<std::thread> threads;
  for (const char* owner : {"one", "two", "three"}) threads.emplace_back(write, owner);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GrantTest, AReadDelegationThatCannotBecomeOneForWritingEnds) {
  // Another client has the file open.
  wire::StateId read = OpenXor(root_, wire::kShareRead).delegation_state_id;
  ASSERT_OK(OpenAs(other_, wire::kShareRead));
  wire::OpenDelegatedRes written = OpenXor(root_, wire::kShareWrite);
  EXPECT_EQ(written.delegation_type, Type::kNone);
  EXPECT_OK(Write(root_, {file_, written.state_id}, 0, "x"));
  EXPECT_EQ(held(), 0u);
  EXPECT_NE(Read(root_, {file_, read}), "xontent");
  EXPECT_OK(Close(root_, {file_, written.state_id}));
  EXPECT_OK(Close(other_, {file_, opened_.state_id}));
  // It is being recalled.
  read = OpenXor(root_, wire::kShareRead).delegation_state_id;
  awaited_.clear();
  EXPECT_DAFS(kDelay, OpenAs(other_, wire::kShareWrite));
  ASSERT_THAT(awaited_, SizeIs(1));
  bool ended = false;
  store_->delegations().Await(awaited_[0], [&] { ended = true; });
  wire::OpenArgs args = OpenArgs(A(), "f");
  EXPECT_EQ(OpenXor(root_, args).delegation_type, Type::kNone);
  EXPECT_TRUE(ended);
  EXPECT_DAFS(kBadStateId, Return(root_, read));
}

TEST_F(GrantTest, AReadDelegationStaysIfItsClientOpensForReading) {
  const wire::StateId read = OpenXor(root_, wire::kShareRead).delegation_state_id;
  const wire::OpenDelegatedRes again = OpenXor(root_, wire::kShareRead);
  EXPECT_EQ(again.delegation_type, Type::kNone);
  EXPECT_OK(Close(root_, {file_, again.state_id}));
  EXPECT_OK(OpenAs(root_, wire::kShareWrite)) << "without the wish";
  EXPECT_EQ(Read(root_, {file_, read}), "content");
  EXPECT_OK(Return(root_, read));
}

TEST_F(GrantTest, NoDelegationOfAFileThatAnotherRequestIsAboutToChange) {
  Promises::Changing changing(store_->promises(), other_.promisee);
  ASSERT_TRUE(changing.Begin(KeyOf(file_), kPromisedAttributes));
  const wire::OpenDelegatedRes instead = OpenXor(root_, wire::kShareRead);
  EXPECT_EQ(instead.delegation_type, Type::kNone);
  EXPECT_OK(Close(root_, {file_, instead.state_id}));
  const wire::OpenDelegatedRes beside = OpenDelegated(root_, wire::kShareRead);
  EXPECT_EQ(beside.delegation_type, Type::kNone);
  EXPECT_OK(Close(root_, {file_, beside.state_id}));
  EXPECT_EQ(held(), 0u);
  changing.Keep();
  EXPECT_EQ(OpenXor(root_, wire::kShareRead).delegation_type, Type::kRead);
}

// The file cannot be truncated while it is executed, so the open that truncates it fails.
TEST_F(GrantTest, AFailedOpenLeavesTheDelegationsAsTheyWere) {
  std::filesystem::copy_file("/bin/sleep", Path("a/sleep"));
  wire::OpenArgs args = CreateArgs(A(), "sleep");
  args.share_access = kWish | wire::kShareWrite;
  args.createattrs = {};
  args.createattrs.set(wire::kFattrObjectSize);
  wire::OpenRes read = OpenXor(root_, OpenArgs(A(), "sleep", wire::kShareRead));
  ASSERT_EQ(read.delegation_type, Type::kRead);
  const pid_t pid = fork();
  if (pid == 0) {
    execl(Path("a/sleep").c_str(), "sleep", "60", nullptr);
    _exit(1);
  }
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  std::error_code error;
  for (int i = 0; i < 1000; ++i) {
    if (std::filesystem::read_symlink(link, error) == Path("a/sleep")) break;
    usleep(10'000);
  }
  wire::OpenRes res;
  EXPECT_NE(store_->opens().Open(root_, args, &res), DafsStatus::kOk);
  EXPECT_EQ(res.delegation_type, Type::kNone);
  EXPECT_DAFS(kAcces, Write(root_, {read.filehandle, read.delegation_state_id}, 0, "x"));
  EXPECT_OK(Return(root_, read.delegation_state_id));
  EXPECT_NE(store_->opens().Open(root_, args, &res), DafsStatus::kOk);
  EXPECT_EQ(held(), 0u);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_F(GrantTest, AWriteDelegationBecomesAReadDelegation) {
  const wire::StateId state_id = OpenXor(root_, wire::kShareBoth).delegation_state_id;
  EXPECT_DAFS(kInval, Downgrade(root_, state_id, wire::kShareWrite));
  EXPECT_DAFS(kInval, Downgrade(root_, state_id, wire::kShareRead, wire::kShareWrite));
  EXPECT_DAFS(kBadStateId, Downgrade(other_, state_id));
  EXPECT_OK(Write(root_, {file_, state_id}, 0, "C"));
  EXPECT_EQ(BitsOfGetattr(root_, file_) & wire::kSpcondAttributes, wire::kSpcondAttributes);
  EXPECT_OK(Downgrade(root_, state_id));
  EXPECT_DAFS(kAcces, Write(root_, {file_, state_id}, 0, "x"));
  EXPECT_EQ(Read(root_, {file_, state_id}), "Content");
  EXPECT_EQ(BitsOfGetattr(other_, file_) & wire::kSpcondAttributes, wire::kSpcondAttributes);
  EXPECT_OK(OpenAs(other_, wire::kShareRead));
  EXPECT_OK(Close(other_, {file_, opened_.state_id}));
  EXPECT_OK(Downgrade(root_, state_id)) << "it is one already";
  EXPECT_EQ(OpenXor(root_, wire::kShareWrite).delegation_state_id, state_id) << "and back";
  EXPECT_OK(Return(root_, state_id));
}

TEST_F(GrantTest, AWriteDelegationThatIsRecalledStaysOne) {
  const wire::StateId state_id = OpenXor(root_, wire::kShareBoth).delegation_state_id;
  EXPECT_DAFS(kDelay, OpenAs(other_, wire::kShareRead));
  EXPECT_DAFS(kInval, Downgrade(root_, state_id));
  EXPECT_OK(Write(root_, {file_, state_id}, 0, "C"));
  EXPECT_OK(Return(root_, state_id));
}

TEST_F(GrantTest, AWriteDelegationPermitsReadingIfItsOpenerMayRead) {
  wire::OpenDelegatedRes res = OpenXor(user_, wire::kShareWrite);
  EXPECT_EQ(res.permissions_acemask, 7u);
  EXPECT_EQ(Read(user_, {file_, res.delegation_state_id}), "content");
  EXPECT_OK(Return(user_, res.delegation_state_id));
  Store::RestoreServerIdentity();
  chmod(Path("a/f").c_str(), 0222);
  res = OpenXor(user_, wire::kShareWrite);
  EXPECT_EQ(res.delegation_type, Type::kWrite);
  EXPECT_EQ(res.permissions_acemask, 6u);
  EXPECT_EQ(Read(user_, {file_, res.delegation_state_id}), "DAFSERR_ACCES");
  EXPECT_DAFS(kInval, Downgrade(user_, res.delegation_state_id));
  EXPECT_OK(Write(user_, {file_, res.delegation_state_id}, 0, "C"));
}

}  // namespace
}  // namespace dafs::server
