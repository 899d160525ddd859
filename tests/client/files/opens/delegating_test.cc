// Opens under delegations, and how these end. The server is scripted: it grants what a test says,
// and knows a delegation by its state id. Spec: 6.5.11, 6.5.24, 6.6.4; WIRE 9.7.
#include "client/files/opens/delegating.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/files/opens/lock_wait.h"
#include "client/state/delegations.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::DafsStatus;
using wire::Proc;
using Type = wire::OpenDelegationType;

class DelegatingTest : public ScriptedTest {
 protected:
  void SetUp() override {
    options_.delegations = options_.callbacks = true;
    server_.extensions = wire::kExtensionOpenXorDelegation;
    server_.spec_cond = [](const Request& request) -> uint16_t {
      if (request.header.procedure != Proc::kGetattrInline) return 0;
      return wire::kSpcondAttributes | wire::kSpcondOnlyClients;
    };
    MakeFiles();
    ASSERT_OK(Await(files_->Connect()));
    client_->promises().Ask();
    ASSERT_TRUE(client_->promises().Begin(absl::Seconds(10)));
    absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, dir_, "f"));
    ASSERT_OK(node);
    file_ = node->handle;
    server_.log.clear();
  }

  std::string NextOwner() { return std::to_string(++owners_); }
  absl::StatusOr<OpenFile> OpenAs(const Identity& user, uint32_t access) {
    const std::string owner = NextOwner();
    if (auto local = files_->opens().OpenLocally(user, file_, access, owner)) return *local;
    return Await(files_->opens().OpenByHandle(user, file_, access, owner));
  }
  wire::StateId Open(uint32_t access = wire::kShareRead) {
    absl::StatusOr<OpenFile> opened = OpenAs(user_, access);
    EXPECT_OK(opened);
    return opened.ok() ? opened->state_id : wire::StateId();
  }
  wire::StateId Create() {
    OpenRequest request;
    request.name = "f";
    request.owner = NextOwner();
    request.share_access = wire::kShareWrite;
    request.create = true;
    absl::StatusOr<OpenFile> opened = Await(files_->opens().Open(user_, request));
    EXPECT_OK(opened);
    return opened.ok() ? opened->state_id : wire::StateId();
  }
  // The delegation makes no local opens. The next open returns it, and gets another one.
  void ExpectReplaced() {
    EXPECT_FALSE(files_->opens().OpenLocally(user_, file_, wire::kShareRead, "x").has_value());
    Sent();
    Close(Open());
    EXPECT_THAT(Sent(),
                ElementsAre(Proc::kDelegreturn, Proc::kOpenDelegated, Proc::kGetattrInline));
    Close(Open());
    EXPECT_THAT(Sent(), IsEmpty());
  }
  void Close(const wire::StateId& open) { EXPECT_OK(Await(files_->opens().Close(open))); }
  absl::Status Read(const wire::StateId& open) {
    BufferLease lease = files_->buffers().TryAcquire(BufferUse::kReadTarget, 4096);
    return Await(files_->data().Read(user_, file_, open, 0, lease, 100)).status();
  }
  wire::StateId Delegation() const {
    for (const auto& [state_id, owner] : server_.opens) {
      if (owner == "f|<delegation>") return wire::OpaqueFromUint64<wire::StateId>(state_id);
    }
    return {};
  }
  // The owners that have the file open at the server.
  std::vector<std::string> Opens() const {
    std::vector<std::string> owners;
    for (const auto& [state_id, owner] : server_.opens) owners.push_back(owner);
    return owners;
  }
  // The requests since the last call.
  std::vector<Proc> Sent() {
    std::vector<Proc> sent;
    for (const ScriptedServer::Seen& seen : server_.log) sent.push_back(seen.proc);
    server_.log.clear();
    return sent;
  }
  bool Recall() {
    const bool known =
        client_->delegations().returns().Recall(file_, Delegation()) == DafsStatus::kOk;
    files_->delegating().ReturnDue();
    return known;
  }
  void AwaitReturned() {
    EXPECT_TRUE(Until([this] { return !files_->delegating().returning(); }));
  }
  Delegations::Counts counts() const { return client_->delegations().counts(); }

  const wire::FileHandle dir_ = {};
  wire::FileHandle file_;
  uint64_t owners_ = 0;
};

// Shows DAFS-6.5.24-19
TEST_F(DelegatingTest, OpensAndClosesUnderAReadDelegationSendNothing) {
  server_.delegates = Type::kRead;
  const wire::StateId first = Open();
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenDelegated, Proc::kGetattrInline));
  const wire::StateId second = Open();
  EXPECT_NE(first, second);
  EXPECT_OK(Read(second));
  EXPECT_THAT(Sent(), ElementsAre(Proc::kReadInline));
  Close(first);
  Close(second);
  Close(Open());
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_EQ(counts().read, 1u);
  EXPECT_EQ(counts().local_opens, 2u);
  EXPECT_EQ(client_->opens().size(), 0u);
}

TEST_F(DelegatingTest, WithoutTheExtensionOrPromisesOpensAreAsBefore) {
  server_.delegates = Type::kRead;
  client_->promises().End();
  Close(Open());
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenHandle, Proc::kGetattrInline, Proc::kClose));
  client_->promises().Ask();
  ASSERT_TRUE(client_->promises().Begin(absl::Seconds(10)));
  client_->limits().extensions = 0;
  Close(Open());
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenHandle, Proc::kGetattrInline, Proc::kClose));
}

// Shows DAFS-4.4.1.2-52: the server has one open for all of these, that of the delegation.
TEST_F(DelegatingTest, CloseOfTheLastWriterKeepsAReadDelegation) {
  server_.delegates = Type::kWrite;
  const wire::StateId first = Create();
  const wire::StateId second = Open(wire::kShareBoth);
  const wire::StateId reader = Open();
  Sent();
  Close(first);
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_EQ(counts().write, 1u);
  Close(second);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenDowngrade));
  EXPECT_EQ(counts().read, 1u);
  Close(reader);
  Close(Open());
  EXPECT_THAT(Sent(), IsEmpty());
}

TEST_F(DelegatingTest, DelegationThatCannotBeDowngradedIsReturned) {
  server_.delegates = Type::kWrite;
  const wire::StateId open = Create();
  Sent();
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpenDowngrade) return false;
    c.Refuse(request, DafsStatus::kInval);
    return true;
  };
  Close(open);
  AwaitReturned();
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenDowngrade, Proc::kDelegreturn));
  EXPECT_THAT(Opens(), IsEmpty());
}

TEST_F(DelegatingTest, OpenForWritingUpgradesAnIdleReadDelegation) {
  server_.delegates = Type::kRead;
  Close(Open());
  const wire::StateId before = Delegation();
  server_.delegates = Type::kWrite;
  Sent();
  const wire::StateId writer = Open(wire::kShareWrite);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenDelegated, Proc::kGetattrInline));
  EXPECT_EQ(Delegation(), before);
  EXPECT_EQ(counts().write, 1u);
  Close(writer);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenDowngrade));
}

TEST_F(DelegatingTest, UpgradeThatIsNotGrantedEndsTheDelegation) {
  server_.delegates = Type::kRead;
  Close(Open());
  server_.delegates = Type::kNone;
  const wire::StateId writer = Open(wire::kShareWrite);
  EXPECT_EQ(counts().read, 0u);
  Sent();
  Close(Open());
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenDelegated, Proc::kGetattrInline, Proc::kClose));
  Close(writer);
}

TEST_F(DelegatingTest, OpenForWritingBesideLocalReadersLeavesTheDelegation) {
  server_.delegates = Type::kRead;
  const wire::StateId reader = Open();
  Sent();
  const wire::StateId writer = Open(wire::kShareWrite);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenHandle, Proc::kGetattrInline));
  EXPECT_OK(Read(reader));
  Close(writer);
  Close(reader);
}

TEST_F(DelegatingTest, OpenOfAnotherUserIsARequest) {
  server_.delegates = Type::kRead;
  Close(Open());
  Sent();
  const Identity other{1001, 100, {}};
  absl::StatusOr<OpenFile> opened = OpenAs(other, wire::kShareRead);
  ASSERT_OK(opened);
  EXPECT_EQ(server_.Count(Proc::kOpenHandle), 1);
  Close(opened->state_id);
}

// Shows DAFS-6.6.4-05 (opens).
TEST_F(DelegatingTest, RecallOpensAtTheServerWhatIsInUse) {
  server_.delegates = Type::kRead;
  const wire::StateId first = Open(), second = Open();
  Sent();
  EXPECT_TRUE(Recall());
  EXPECT_FALSE(files_->opens().OpenLocally(user_, file_, wire::kShareRead, "x").has_value());
  AwaitReturned();
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenOwner, Proc::kOpenOwner, Proc::kDelegreturn));
  EXPECT_OK(Read(first));
  EXPECT_OK(Read(second));
  EXPECT_THAT(Sent(), ElementsAre(Proc::kReadInline, Proc::kReadInline));
  EXPECT_EQ(counts().recalls, 1u);
  Close(first);
  Close(second);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kClose, Proc::kClose));
  EXPECT_THAT(Opens(), IsEmpty());
}

TEST_F(DelegatingTest, RecallOfAWriteDelegationReducesTheOpens) {
  server_.delegates = Type::kWrite;
  const wire::StateId writer = Create(), reader = Open();
  Sent();
  EXPECT_TRUE(Recall());
  AwaitReturned();
  std::vector<Proc> sent = Sent();
  EXPECT_EQ(std::count(sent.begin(), sent.end(), Proc::kOpenOwner), 2);
  EXPECT_EQ(std::count(sent.begin(), sent.end(), Proc::kOpenDowngrade), 2);
  EXPECT_EQ(sent.back(), Proc::kDelegreturn);
  Close(writer);
  Close(reader);
}

// The delegation was downgraded after all: the open at the server has too little access.
TEST_F(DelegatingTest, OpenWithLessAccessThanTheLocalOneIsReclaimed) {
  server_.delegates = Type::kWrite;
  const wire::StateId writer = Open(wire::kShareBoth);
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpenDowngrade) return false;
    c.Refuse(request, DafsStatus::kInval);
    return true;
  };
  EXPECT_TRUE(Recall());
  AwaitReturned();
  EXPECT_THAT(Opens(), ElementsAre("f|1"));
  EXPECT_THAT(Sent(), Contains(Proc::kClose)) << "of the open with less access";
  EXPECT_OK(Read(writer));
  EXPECT_THAT(Sent(), ElementsAre(Proc::kReadInline)) << "it was claimed with the return";
  Close(writer);
}

TEST_F(DelegatingTest, OpenThatIsClosedWhileItBecomesRealIsClosedAtTheServer) {
  server_.delegates = Type::kRead;
  const wire::StateId open = Open();
  server_.hold = true;
  EXPECT_TRUE(Recall());
  Close(open);
  server_.hold = false;
  server_.ServeHeld(server_.only());
  AwaitReturned();
  EXPECT_TRUE(Until([this] { return Opens().empty(); }));
}

// The answer that grants a delegation may arrive after its recall.
TEST_F(DelegatingTest, RecallBeforeTheGrantIsNotLost) {
  server_.delegates = Type::kRead;
  server_.script = [this](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpenDelegated) return false;
    server_.Serve(c, request);  // its answer is not read yet
    EXPECT_EQ(client_->delegations().returns().Recall(file_, Delegation()), DafsStatus::kBadHandle);
    return true;
  };
  const wire::StateId open = Open();
  server_.script = nullptr;
  AwaitReturned();
  EXPECT_EQ(server_.Count(Proc::kDelegreturn), 1);
  EXPECT_THAT(Opens(), ElementsAre("f|1"));
  EXPECT_OK(Read(open));
  Close(open);
}

TEST_F(DelegatingTest, WithoutPromisesDelegationsAreReturned) {
  server_.delegates = Type::kRead;
  const wire::StateId open = Open();
  client_->promises().End();
  Sent();
  Close(Open());
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenHandle, Proc::kGetattrInline, Proc::kClose));
  client_->delegations().returns().EndAll();
  files_->delegating().ReturnDue();
  AwaitReturned();
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenOwner, Proc::kDelegreturn));
  EXPECT_OK(Read(open));
  Close(open);
}

// Delegations of earlier promises are not used, even if the server gives new promises.
TEST_F(DelegatingTest, NewPromisesDoNotMakeOldDelegationsGood) {
  server_.delegates = Type::kRead;
  Close(Open());
  client_->promises().Ask();
  ASSERT_TRUE(client_->promises().Begin(absl::Seconds(10)));
  ExpectReplaced();
}

TEST_F(DelegatingTest, SilenceOfHalfTheRecallTimeEndsTheTrust) {
  client_->promises().End();
  client_->promises().Ask();
  ASSERT_TRUE(client_->promises().Begin(absl::Milliseconds(200)));
  server_.delegates = Type::kRead;
  Close(Open());
  const absl::Time until = client_->last_activity() + absl::Milliseconds(100);
  ASSERT_TRUE(Until([&] { return Loop::Now() >= until; }));
  EXPECT_FALSE(files_->opens().OpenLocally(user_, file_, wire::kShareRead, "x").has_value());
}

TEST_F(DelegatingTest, DelegationIsReturnedInTheChainThatRemovesTheFile) {
  server_.delegates = Type::kRead;
  Close(Open());
  Sent();
  EXPECT_OK(Await(files_->names().Remove(user_, dir_, "f", nullptr, nullptr, &file_)));
  EXPECT_THAT(Sent(), ElementsAre(Proc::kDelegreturn, Proc::kRemove));
  EXPECT_EQ(counts().read, 0u);
  // The server has revoked this one: the file is removed in spite of that.
  Close(Open());
  server_.opens.clear();
  Sent();
  EXPECT_OK(Await(
      files_->names().Rename(user_, dir_, "a", dir_, "f", nullptr, nullptr, nullptr, &file_)));
  EXPECT_THAT(Sent(), ElementsAre(Proc::kDelegreturn, Proc::kRename, Proc::kRename));
}

TEST_F(DelegatingTest, RemovedFileInUseIsReturnedByTheLastClose) {
  server_.delegates = Type::kRead;
  const wire::StateId first = Open(), second = Open();
  EXPECT_OK(Await(files_->names().Remove(user_, dir_, "f", nullptr, nullptr, &file_)));
  Sent();
  EXPECT_OK(Read(second));
  Close(first);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kReadInline));
  Close(second);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kDelegreturn));
}

TEST_F(DelegatingTest, ChangeOfRightsEndsLocalOpens) {
  server_.delegates = Type::kRead;
  Close(Open());
  wire::FileAttributes mode;
  mode.mode = 0600;
  mode.set(wire::kFattrMode);
  Identity other = user_;
  other.uid = 0;
  ASSERT_OK(Await(files_->attributes().SetAttributes(other, file_, {}, mode)));
  ExpectReplaced();
  // The user of the delegation is the owner, who may not read the file any more.
  mode.mode = 0277;
  ASSERT_OK(Await(files_->attributes().SetAttributes(user_, file_, {}, mode)));
  ExpectReplaced();
  // The owner may still read it.
  mode.mode = 0400;
  ASSERT_OK(Await(files_->attributes().SetAttributes(user_, file_, {}, mode)));
  Sent();
  Close(Open());
  EXPECT_THAT(Sent(), IsEmpty());
  wire::FileAttributes times;
  times.set(wire::kFattrTimeModify);
  ASSERT_OK(Await(files_->attributes().SetAttributes(user_, file_, {}, times)));
  Sent();
  Close(Open());
  EXPECT_THAT(Sent(), IsEmpty());
}

class LocalLocksTest : public DelegatingTest {
 protected:
  // An open of a lock owner, as a process that locks through `open` has.
  LockOwner OwnerOf(const wire::StateId& open, uint32_t access, uint64_t process) {
    absl::StatusOr<wire::StateId> opened =
        Await(files_->opens().OpenForOwner(open, access, NextOwner()));
    EXPECT_OK(opened);
    return {file_, opened.ok() ? *opened : wire::StateId(), process};
  }
  LockOutcome Lock(const LockOwner& owner, const wire::LockRange& range) {
    absl::StatusOr<LockAnswer> answer = Await(files_->locks().Lock(user_, owner, range));
    EXPECT_OK(answer);
    return answer.ok() ? answer->outcome : LockOutcome::kCancelled;
  }
  void Unlock(const LockOwner& owner) {
    EXPECT_OK(Await(files_->locks().Unlock(user_, owner, 0, wire::kFlockByte)));
  }
  // Begins to wait for a lock; `done` has the outcome at the end.
  Task<void> WaitFor(LockOwner owner, wire::LockRange range, LockWait& wait,
                     std::optional<LockOutcome>& done) {
    Task<absl::StatusOr<LockAnswer>> task = files_->locks().Lock(user_, owner, range, &wait);
    absl::StatusOr<LockAnswer> answer = co_await task;
    EXPECT_OK(answer);
    if (answer.ok()) done = answer->outcome;
  }

  const wire::LockRange write_{0, 9, true};
  const wire::LockRange read_{0, 9, false};
};

TEST_F(LocalLocksTest, LocksUnderAWriteDelegationSendNothing) {
  server_.delegates = Type::kWrite;
  const wire::StateId open = Open(wire::kShareBoth);
  Sent();
  const LockOwner a = OwnerOf(open, wire::kShareBoth, 1), b = OwnerOf(open, wire::kShareBoth, 2);
  EXPECT_EQ(Lock(a, write_), LockOutcome::kGranted);
  EXPECT_EQ(Lock(b, read_), LockOutcome::kDenied);
  EXPECT_EQ(Lock(a, read_), LockOutcome::kGranted);
  EXPECT_EQ(Lock(b, read_), LockOutcome::kGranted);
  const auto conflict = Await(files_->locks().TestLock(user_, file_, "x", write_));
  ASSERT_OK(conflict);
  ASSERT_TRUE(conflict->has_value());
  EXPECT_TRUE((*conflict)->ours);
  Unlock(a);
  Unlock(b);
  EXPECT_EQ(Lock(b, wire::FlockRange(true)), LockOutcome::kGranted);
  Close(a.state_id);
  Close(b.state_id);
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_EQ(client_->locks().count(), 0u);
  EXPECT_EQ(counts().local_locks, 4u);
  Close(open);
}

TEST_F(LocalLocksTest, ReadLocksUnderAReadDelegationSendNothing) {
  server_.delegates = Type::kRead;
  const wire::StateId open = Open();
  Sent();
  const LockOwner a = OwnerOf(open, wire::kShareRead, 1);
  EXPECT_EQ(Lock(a, read_), LockOutcome::kGranted);
  Unlock(a);
  EXPECT_THAT(Sent(), IsEmpty());
  // Other clients may have read locks that only they know.
  EXPECT_OK(Await(files_->locks().TestLock(user_, file_, "x", write_)));
  EXPECT_THAT(Sent(), ElementsAre(Proc::kLockt));
  Close(a.state_id);
  Close(open);
}

TEST_F(LocalLocksTest, ProgramsOfTheServerMustSeeLocks) {
  server_.spec_cond = [](const Request&) -> uint16_t { return wire::kSpcondAttributes; };
  server_.delegates = Type::kRead;
  const wire::StateId open = Open();
  Sent();
  EXPECT_EQ(Lock({file_, open, 1}, read_), LockOutcome::kGranted);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenOwner, Proc::kLock, Proc::kGetattrInline));
  Unlock({file_, open, 1});
  Close(open);
}

// The server would not see the conflict with a lock that only this client knows.
TEST_F(LocalLocksTest, OneLockAtTheServerTakesTheOthersThere) {
  server_.delegates = Type::kRead;
  const wire::StateId open = Open();
  const LockOwner a = OwnerOf(open, wire::kShareRead, 1), b{file_, open, 0};
  EXPECT_EQ(Lock(a, read_), LockOutcome::kGranted);
  Sent();
  EXPECT_EQ(Lock(b, wire::FlockRange(true)), LockOutcome::kGranted);  // needs a write delegation
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenOwner, Proc::kOpenOwner, Proc::kLock, Proc::kLock,
                                  Proc::kGetattrInline));
  const LockOwner c = OwnerOf(Open(), wire::kShareRead, 3);
  EXPECT_EQ(Lock(c, read_), LockOutcome::kGranted);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenOwner, Proc::kLock, Proc::kGetattrInline));
  EXPECT_EQ(counts().read, 1u);  // it still serves opens
  for (const LockOwner& owner : {a, b, c}) Unlock(owner);
  Sent();
  const LockOwner d = OwnerOf(Open(), wire::kShareRead, 4);
  EXPECT_EQ(Lock(d, read_), LockOutcome::kGranted);
  EXPECT_THAT(Sent(), IsEmpty());
}

// Shows DAFS-6.6.4-05 (locks). Modified data is at the server already.
TEST_F(LocalLocksTest, RecallTakesLocksToTheServerFirst) {
  server_.delegates = Type::kWrite;
  const wire::StateId open = Open(wire::kShareBoth);
  const LockOwner a = OwnerOf(open, wire::kShareBoth, 1);
  for (uint64_t first = 0; first < 200; first += 20) {  // more than a chain holds
    EXPECT_EQ(Lock(a, {first, first + 9, true}), LockOutcome::kGranted);
  }
  Sent();
  EXPECT_TRUE(Recall());
  const auto conflict = Await(files_->locks().TestLock(user_, file_, "x", write_));
  ASSERT_OK(conflict);
  EXPECT_TRUE(conflict->has_value());  // the server does not know it yet
  AwaitReturned();
  const std::vector<Proc> sent = Sent();
  EXPECT_EQ(std::count(sent.begin(), sent.end(), Proc::kLock), 10);
  EXPECT_EQ(sent.back(), Proc::kDelegreturn);
  Unlock(a);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kLocku));
  EXPECT_EQ(Lock(a, write_), LockOutcome::kGranted);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kLock, Proc::kGetattrInline));
  Close(a.state_id);
  Close(open);
}

TEST_F(LocalLocksTest, LockThatTheServerDeniesAfterARecallIsLost) {
  server_.delegates = Type::kWrite;
  const wire::StateId open = Open(wire::kShareBoth);
  const LockOwner a = OwnerOf(open, wire::kShareBoth, 1);
  EXPECT_EQ(Lock(a, write_), LockOutcome::kGranted);
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kLock) return false;
    c.Refuse(request, DafsStatus::kResource);
    return true;
  };
  EXPECT_TRUE(Recall());
  AwaitReturned();
  server_.script = nullptr;
  EXPECT_FALSE(Read(open).ok());
  Close(a.state_id);
  Close(open);
}

TEST_F(LocalLocksTest, LocksOfARevokedDelegationAreLost) {
  server_.delegates = Type::kWrite;
  const wire::StateId open = Open(wire::kShareBoth);
  EXPECT_EQ(Lock({file_, open, 1}, write_), LockOutcome::kGranted);
  server_.opens.clear();
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kOpen) return false;
    c.Refuse(request, DafsStatus::kExpired);  // of CLAIM_PREVIOUS
    return true;
  };
  client_->delegations().returns().EndAll();
  files_->delegating().ReturnDue();
  AwaitReturned();
  server_.script = nullptr;
  EXPECT_FALSE(files_->opens().IsOpen(open));
  EXPECT_FALSE(Read(open).ok());
  Close(open);
}

TEST_F(LocalLocksTest, LocksAreReclaimedFromARestartedServer) {
  server_.delegates = Type::kWrite;
  const wire::StateId open = Open(wire::kShareBoth);
  const LockOwner a{file_, open, 1};
  EXPECT_EQ(Lock(a, write_), LockOutcome::kGranted);
  server_.Restart();
  Sent();
  EXPECT_OK(Read(open));
  EXPECT_EQ(server_.Count(Proc::kLock), 1);
  Unlock(a);
  EXPECT_EQ(server_.Count(Proc::kLocku), 1);
  Close(open);
}

TEST_F(LocalLocksTest, WaiterIsWokenHere) {
  server_.delegates = Type::kWrite;
  const wire::StateId open = Open(wire::kShareBoth);
  const LockOwner a = OwnerOf(open, wire::kShareBoth, 1), b = OwnerOf(open, wire::kShareBoth, 2),
                  c = OwnerOf(open, wire::kShareBoth, 3);
  Sent();
  EXPECT_EQ(Lock(a, write_), LockOutcome::kGranted);
  LockWait wait(*loop_, [] { return 2; });
  std::optional<LockOutcome> done;
  Start(WaitFor(b, write_, wait, done));
  EXPECT_FALSE(done.has_value());
  Unlock(a);
  EXPECT_EQ(Lock(c, write_), LockOutcome::kDenied);  // the waiter came first
  EXPECT_TRUE(Until([&] { return done.has_value(); }));
  EXPECT_EQ(done, LockOutcome::kGranted);
  EXPECT_THAT(Sent(), IsEmpty());
  for (const LockOwner& owner : {a, b, c}) Close(owner.state_id);
  Close(open);
}

TEST_F(LocalLocksTest, DeadlockIsFoundHere) {
  server_.delegates = Type::kWrite;
  const wire::StateId open = Open(wire::kShareBoth);
  const LockOwner a = OwnerOf(open, wire::kShareBoth, 1), b = OwnerOf(open, wire::kShareBoth, 2);
  Sent();
  const wire::LockRange other{10, 19, true};
  EXPECT_EQ(Lock(a, write_), LockOutcome::kGranted);
  EXPECT_EQ(Lock(b, other), LockOutcome::kGranted);
  LockWait first(*loop_, [] { return 1; }), second(*loop_, [] { return 2; });
  std::optional<LockOutcome> waited, refused;
  Start(WaitFor(a, other, first, waited));
  Start(WaitFor(b, write_, second, refused));
  EXPECT_TRUE(Until([&] { return refused.has_value(); }));
  EXPECT_EQ(refused, LockOutcome::kDeadlock);
  Close(b.state_id);
  EXPECT_TRUE(Until([&] { return waited.has_value(); }));
  EXPECT_EQ(waited, LockOutcome::kGranted);
  EXPECT_THAT(Sent(), IsEmpty());
  Close(a.state_id);
  Close(open);
}

TEST_F(LocalLocksTest, WaiterAsksTheServerAfterARecall) {
  server_.delegates = Type::kWrite;
  const wire::StateId open = Open(wire::kShareBoth);
  const LockOwner a = OwnerOf(open, wire::kShareBoth, 1), b = OwnerOf(open, wire::kShareBoth, 2);
  EXPECT_EQ(Lock(a, write_), LockOutcome::kGranted);
  LockWait wait(*loop_, [] { return 2; });
  std::optional<LockOutcome> done;
  Start(WaitFor(b, write_, wait, done));
  EXPECT_TRUE(Recall());
  AwaitReturned();
  EXPECT_TRUE(Until([&] { return done.has_value(); }));  // the scripted server grants all
  EXPECT_EQ(server_.Count(Proc::kLock), 2);
  Close(a.state_id);
  Close(b.state_id);
  Close(open);
}

// Otherwise the OPEN would end the delegation before its locks are at the server.
TEST_F(LocalLocksTest, OpenByNameLeavesADelegationWithReadLocks) {
  server_.delegates = Type::kRead;
  const wire::StateId open = Open();
  EXPECT_EQ(Lock({file_, open, 1}, read_), LockOutcome::kGranted);
  server_.delegates = Type::kNone;
  const wire::StateId writer = Create();
  EXPECT_FALSE(Delegation().is_zero());
  Sent();
  Unlock({file_, open, 1});
  EXPECT_THAT(Sent(), IsEmpty());
  Close(writer);
  Close(open);
}

// Its session may hang. Due returns are left to a worker that the server answers.
TEST_F(DelegatingTest, QuietWorkerReturnsWhatIsDueAfterAnAnswer) {
  server_.delegates = Type::kRead;
  Close(Open());
  EXPECT_EQ(client_->delegations().returns().Recall(file_, Delegation()), DafsStatus::kOk);
  files_->delegating().ReturnDueIfAnswered();
  AwaitReturned();
  Close(Open());
  Await(loop_->Sleep(absl::Milliseconds(1100)));
  Sent();
  server_.hold = true;
  EXPECT_EQ(client_->delegations().returns().Recall(file_, Delegation()), DafsStatus::kOk);
  files_->delegating().ReturnDueIfAnswered();
  EXPECT_TRUE(Until([this] { return !server_.log.empty(); }));
  EXPECT_TRUE(client_->delegations().returns().any_due());
  server_.hold = false;
  server_.ServeHeld(server_.only());
  EXPECT_TRUE(Until([this] { return !client_->delegations().returns().any_due(); }));
  AwaitReturned();
  EXPECT_THAT(Sent(), ElementsAre(Proc::kNull, Proc::kDelegreturn));
}

TEST_F(DelegatingTest, ExecutionOfAReadableFileGetsADelegation) {
  server_.delegates = Type::kRead;
  absl::StatusOr<OpenFile> opened = Await(files_->opens().OpenForExecution(user_, file_, "x"));
  ASSERT_OK(opened);
  EXPECT_THAT(Sent(), ElementsAre(Proc::kOpenDelegated, Proc::kGetattrInline));
  Close(opened->state_id);
  EXPECT_TRUE(files_->opens().OpenLocally(user_, file_, wire::kShareRead, "y").has_value());
}

TEST_F(DelegatingTest, ExecutionOfAFileThatMayNotBeReadIsAnOpen) {
  server_.delegates = Type::kRead;
  server_.script = [](ScriptedConnection& c, const Request& request) {
    const bool executes = request.header.procedure == Proc::kOpenExecute;
    if (!executes && request.header.procedure != Proc::kOpenDelegated) return false;
    c.Refuse(request, executes ? DafsStatus::kIo : DafsStatus::kAcces);
    return true;
  };
  absl::StatusOr<OpenFile> opened = Await(files_->opens().OpenForExecution(user_, file_, "x"));
  EXPECT_EQ(wire::DafsFromStatus(opened.status()), DafsStatus::kIo) << "of OPEN_EXECUTE";
  server_.script = nullptr;
}

// It ends the lease of the server's kernel: local programs may change the file at once.
TEST_F(DelegatingTest, OwnTruncationEndsLocalOpensWhereLocalProgramsChangeFiles) {
  for (const bool only_clients : {false, true}) {
    server_.spec_cond = [=](const Request&) -> uint16_t {
      return wire::kSpcondAttributes | (only_clients ? wire::kSpcondOnlyClients : 0);
    };
    server_.delegates = Type::kRead;
    Close(Open());
    wire::FileAttributes empty;
    empty.set(wire::kFattrObjectSize);
    ASSERT_OK(Await(files_->attributes().SetAttributes(user_, file_, {}, empty)));
    Sent();
    Close(Open());
    EXPECT_EQ(server_.Count(Proc::kOpenDelegated), only_clients ? 0 : 1);
    client_->delegations().returns().EndAll();
    files_->delegating().ReturnDue();
    AwaitReturned();
  }
}

// A revoked delegation serves no opens, and what is open is opened again.
TEST_F(DelegatingTest, RevokedDelegationIsNotUsedAgain) {
  server_.delegates = Type::kRead;
  const wire::StateId open = Open();
  server_.opens.clear();
  EXPECT_OK(Read(open));
  EXPECT_THAT(Opens(), ElementsAre("f|1"));
  EXPECT_FALSE(files_->opens().OpenLocally(user_, file_, wire::kShareRead, "x").has_value());
  Close(open);
}

TEST_F(DelegatingTest, LocalOpensAreReclaimedFromARestartedServer) {
  server_.delegates = Type::kRead;
  const wire::StateId open = Open();
  server_.Restart();
  EXPECT_OK(Read(open));
  EXPECT_THAT(Opens(), ElementsAre("f|1"));
  client_->delegations().returns().EndAll();
  Sent();
  files_->delegating().ReturnDue();
  AwaitReturned();
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_EQ(counts().read, 0u);
  Close(open);
}

TEST_F(DelegatingTest, ManyAreReturnedTogether) {
  server_.delegates = Type::kRead;
  for (int i = 0; i < 20; ++i) {
    absl::StatusOr<Node> node = Await(files_->names().Lookup(user_, dir_, absl::StrCat("many", i)));
    ASSERT_OK(node);
    absl::StatusOr<OpenFile> opened =
        Await(files_->opens().OpenByHandle(user_, node->handle, wire::kShareRead, NextOwner()));
    ASSERT_OK(opened);
    Close(opened->state_id);
  }
  EXPECT_EQ(counts().read, 20u);
  // One that the server does not know does not stop the others.
  server_.opens.erase(server_.opens.begin());
  client_->delegations().returns().EndAll();
  files_->delegating().ReturnDue();
  AwaitReturned();
  EXPECT_THAT(Opens(), IsEmpty());
  EXPECT_EQ(counts().read, 0u);
}

}  // namespace
}  // namespace dafs::client::testing
