// The control session requests promises, and ends them when the server cannot announce changes. The
// server is scripted. Spec: WIRE 9.6.
#include "client/status/promise_keeper.h"

#include <thread>

#include "client/state/locks.h"
#include "runtime/loop/loop_wait.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using ::testing::ElementsAre;
using wire::DafsStatus;
using wire::Proc;

wire::FileHandle HandleOf(uint8_t number) {
  wire::FileHandle handle;
  handle.fileid.bytes[0] = number;
  return handle;
}

class PromiseKeeperTest : public ScriptedTest, public PromiseObserver {
 protected:
  PromiseKeeperTest() {
    server_.back_control = true;
    server_.promises = {.granted = 100, .recall_ms = 10000};
  }
  ~PromiseKeeperTest() override { StopKeeper(); }

  void StartKeeper(PromiseObserver* observer) {
    MakeClient();
    session_keeper_ = std::make_unique<SessionKeeper>(*client_, *loop_, nullptr, "control",
                                                      /*callbacks=*/true);
    keeper_ = std::make_unique<PromiseKeeper>(*client_, *loop_, *session_keeper_, observer);
    session_keeper_->OnChange([this](Session& session) { keeper_->SessionReady(session); },
                              [this](Session&) { keeper_->SessionLost(); });
    ASSERT_OK(Await(session_keeper_->ConnectOnce()));
  }
  void StopKeeper() {
    if (keeper_ != nullptr) keeper_->Shutdown();
    if (session_keeper_ != nullptr) session_keeper_->Shutdown();
    keeper_.reset();
    session_keeper_.reset();
  }
  // Until the server has granted promises.
  void StartActive(PromiseObserver* observer) {
    StartKeeper(observer);
    ASSERT_TRUE(Until([this] { return promises().active(); }));
  }
  Promises& promises() { return client_->promises(); }
  Promise Asked() {
    return Promises::Given(promises().sequence(), wire::kSpcondAttributes, wire::kSpcondAttributes);
  }
  bool IsGood(const Promise& promise, const wire::FileHandle& object) {
    return promises().IsGood(promise, object);
  }
  // Sends a request over the control session.
  absl::Status SendNull() {
    Call<wire::NullArgs> null;
    CallBase* const chain[] = {&null};
    return Await(
        session_keeper_->session()->Run(wire::CredHandle(), chain, absl::InfiniteFuture()));
  }
  static wire::BcChangedArgs Change(const wire::FileHandle& object, uint32_t what,
                                    const std::string& name = "") {
    wire::BcChangedArgs args;
    args.changed.push_back({object, what, name});
    return args;
  }
  std::vector<uint16_t> Answered() const {
    std::vector<uint16_t> streams;
    for (const wire::ResponseHeader& header : server_.directive_answers) {
      EXPECT_EQ(header.status, DafsStatus::kOk);
      streams.push_back(header.stream_id);
    }
    return streams;
  }
  static Task<void> Note(LoopWait& wait, bool* woken) {
    const absl::Status status = co_await wait.Wait();
    *woken = status.ok();
  }
  int asked() const { return server_.Count(Proc::kPromises); }

  // PromiseObserver
  void OnChanged(const wire::FileHandle& object, uint32_t what, const std::string& name,
                 absl::AnyInvocable<void()> dropped) override {
    EXPECT_FALSE(IsGood(before_, object));
    changed_.push_back({object, what, name});
    if (!holds_) return dropped();
    held_.push_back(std::move(dropped));
  }
  void OnVoid(absl::AnyInvocable<void()> dropped) override {
    EXPECT_FALSE(promises().active() && IsGood(before_, HandleOf(1)));
    ++voids_;
    if (!holds_) return dropped();
    held_.push_back(std::move(dropped));
  }
  void DropHeld() {
    std::vector<absl::AnyInvocable<void()>> held = std::move(held_);
    held_.clear();
    // As the notifier of a mount does.
    std::thread other([&held] {
      for (absl::AnyInvocable<void()>& dropped : held) dropped();
    });
    other.join();
  }

  std::unique_ptr<SessionKeeper> session_keeper_;
  std::unique_ptr<PromiseKeeper> keeper_;
  bool holds_ = false;
  std::vector<absl::AnyInvocable<void()>> held_;
  std::vector<wire::Changed> changed_;
  int voids_ = 0;
  Promise before_;  // of an answer before the change
};

// Entries cached by time before the first grant are dropped; then promises are requested again.
TEST_F(PromiseKeeperTest, PromisesBeginAfterEverythingWasDropped) {
  holds_ = true;
  StartKeeper(this);
  ASSERT_TRUE(Until([this] { return voids_ == 1; }));
  EXPECT_TRUE(promises().offered());
  Settle();
  EXPECT_EQ(asked(), 1);
  EXPECT_FALSE(promises().active());
  DropHeld();
  ASSERT_TRUE(Until([this] { return promises().active(); }));
  EXPECT_EQ(asked(), 2);
  EXPECT_EQ(voids_, 1);
}

TEST_F(PromiseKeeperTest, ServerWithoutPromisesCostsOneRequest) {
  server_.promises.granted = 0;  // NOTSUPP
  StartKeeper(this);
  ASSERT_TRUE(Until([this] { return asked() == 1; }));
  Settle();
  EXPECT_FALSE(promises().offered());
  EXPECT_EQ(asked(), 1);
  EXPECT_EQ(voids_, 0);
  // Nor is anything dropped when the session is replaced.
  server_.connections.front()->Close(absl::OkStatus());
  ASSERT_TRUE(Until([this] { return asked() == 2; }));
  Settle();
  EXPECT_EQ(voids_, 0);
}

TEST_F(PromiseKeeperTest, GrantOfZeroPromisesIsNone) {
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kPromises) return false;
    c.Answer(request, wire::PromisesRes());
    return true;
  };
  StartKeeper(this);
  ASSERT_TRUE(Until([this] { return asked() == 1; }));
  Settle();
  EXPECT_FALSE(promises().offered());
  EXPECT_FALSE(client_->locks().announced());
  EXPECT_EQ(voids_, 0);
}

TEST_F(PromiseKeeperTest, FreeLocksAreAnnouncedThoughNoPromisesAreGranted) {
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kPromises) return false;
    c.Answer(request, wire::PromisesRes{.granted = 0, .recall_ms = 10000});
    return true;
  };
  StartKeeper(this);
  ASSERT_TRUE(Until([this] { return client_->locks().announced(); }));
  EXPECT_FALSE(promises().offered());
}

TEST_F(PromiseKeeperTest, SessionWithoutTheChannelRequestsNothing) {
  server_.back_control = false;
  StartKeeper(this);
  Settle();
  EXPECT_EQ(asked(), 0);
  EXPECT_FALSE(promises().offered());
}

TEST_F(PromiseKeeperTest, RefusalAfterAGrantLeavesCachingToTime) {
  StartActive(this);
  server_.promises.granted = 0;
  server_.connections.front()->Close(absl::OkStatus());
  ASSERT_TRUE(Until([this] { return asked() == 3; }));
  ASSERT_TRUE(Until([this] { return !promises().offered(); }));
  EXPECT_EQ(voids_, 2);
}

TEST_F(PromiseKeeperTest, ChangeIsAnsweredWhenItsObjectIsDropped) {
  StartActive(this);
  holds_ = true;
  before_ = Asked();
  const Promise of_other = Asked();
  server_.BackControl()->Direct(Change(HandleOf(1), wire::kChangedNames, "name"), 3);
  ASSERT_TRUE(Until([this] { return changed_.size() == 1; }));
  EXPECT_EQ(changed_[0], (wire::Changed{HandleOf(1), wire::kChangedNames, "name"}));
  EXPECT_TRUE(IsGood(of_other, HandleOf(2)));
  Settle();
  EXPECT_THAT(Answered(), ElementsAre());
  DropHeld();
  ASSERT_TRUE(Until([this] { return !server_.directive_answers.empty(); }));
  EXPECT_THAT(Answered(), ElementsAre(3));
  EXPECT_EQ(promises().counts().breaks.count(), 1u);
  EXPECT_TRUE(promises().active());
}

TEST_F(PromiseKeeperTest, ChangesAreAnsweredInAnyOrder) {
  StartActive(this);
  holds_ = true;
  wire::BcChangedArgs both = Change(HandleOf(1), wire::kChangedAttributes);
  both.changed.push_back({HandleOf(2), wire::kChangedNames, ""});
  server_.BackControl()->Direct(both, 0);
  server_.BackControl()->Direct(Change(HandleOf(3), wire::kChangedAttributes), 1);
  ASSERT_TRUE(Until([this] { return held_.size() == 3; }));
  std::vector<absl::AnyInvocable<void()>> held = std::move(held_);
  held[2]();
  held[2]();  // no effect
  ASSERT_TRUE(Until([this] { return server_.directive_answers.size() == 1; }));
  held[0]();
  Settle();
  EXPECT_THAT(Answered(), ElementsAre(1));  // one of two objects is not dropped yet
  held[1]();
  ASSERT_TRUE(Until([this] { return server_.directive_answers.size() == 2; }));
  EXPECT_THAT(Answered(), ElementsAre(1, 0));
  EXPECT_EQ(promises().counts().breaks.count(), 3u);
}

TEST_F(PromiseKeeperTest, ChangeIsAnsweredAtOnceIfNothingIsCached) {
  StartActive(nullptr);
  before_ = Asked();
  server_.BackControl()->Direct(Change(HandleOf(1), wire::kChangedAttributes));
  ASSERT_TRUE(Until([this] { return !server_.directive_answers.empty(); }));
  EXPECT_THAT(Answered(), ElementsAre(0));
  EXPECT_FALSE(IsGood(before_, HandleOf(1)));
}

// The answer is OK, and nothing else is dropped.
TEST_F(PromiseKeeperTest, ChangeOfAnUnknownObjectEndsNoOtherPromise) {
  StartActive(this);
  const Promise of_other = Asked();
  server_.BackControl()->Direct(Change(HandleOf(77), wire::kChangedAttributes));
  ASSERT_TRUE(Until([this] { return !server_.directive_answers.empty(); }));
  EXPECT_THAT(Answered(), ElementsAre(0));
  EXPECT_TRUE(IsGood(of_other, HandleOf(1)));
  EXPECT_EQ(voids_, 1);  // that of the start
}

TEST_F(PromiseKeeperTest, ChangeOfEverythingDropsAllAndKeepsTheGrant) {
  StartActive(this);
  holds_ = true;
  before_ = Asked();
  server_.BackControl()->Direct(Change(wire::FileHandle(), wire::kChangedAll));
  ASSERT_TRUE(Until([this] { return voids_ == 2; }));
  EXPECT_FALSE(IsGood(before_, HandleOf(1)));
  EXPECT_TRUE(IsGood(Asked(), HandleOf(1)));
  Settle();
  EXPECT_THAT(Answered(), ElementsAre());
  DropHeld();
  ASSERT_TRUE(Until([this] { return !server_.directive_answers.empty(); }));
  EXPECT_EQ(asked(), 2);
}

TEST_F(PromiseKeeperTest, ChangeOfTheRootNamesTheHandleThatUsersKeep) {
  StartActive(this);
  client_->root().Found(HandleOf(1));
  ASSERT_TRUE(client_->root().Renew(HandleOf(1), HandleOf(2)));
  before_ = Asked();
  server_.BackControl()->Direct(Change(HandleOf(2), wire::kChangedAttributes));
  ASSERT_TRUE(Until([this] { return !server_.directive_answers.empty(); }));
  ASSERT_EQ(changed_.size(), 1u);
  EXPECT_EQ(changed_[0].filehandle, HandleOf(1));
  EXPECT_FALSE(IsGood(before_, HandleOf(1)));
}

TEST_F(PromiseKeeperTest, VoidEndsAllAtOnceAndPromisesAreRequestedAfterTheDrop) {
  StartActive(this);
  holds_ = true;
  before_ = Asked();
  bool is_void = true;
  server_.spec_cond = [&is_void](const Request& request) {
    if (request.header.procedure == Proc::kPromises) is_void = false;
    return is_void ? wire::kSpcondVoid : uint16_t{0};
  };
  EXPECT_OK(SendNull());
  EXPECT_FALSE(promises().active());
  EXPECT_TRUE(promises().offered());
  ASSERT_TRUE(Until([this] { return voids_ == 2; }));
  EXPECT_OK(SendNull());  // void as well
  Settle();
  EXPECT_EQ(asked(), 2);
  DropHeld();
  ASSERT_TRUE(Until([this] { return promises().active(); }));
  EXPECT_EQ(asked(), 3);
  EXPECT_EQ(voids_, 2);
  EXPECT_FALSE(IsGood(before_, HandleOf(1)));
  EXPECT_TRUE(IsGood(Asked(), HandleOf(1)));
}

TEST_F(PromiseKeeperTest, VoidWhilePromisesIsOutstandingRequestsThemAgain) {
  server_.script = [this](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kPromises || asked() != 2) return false;
    server_.Serve(c, request);
    promises().Heard(wire::kSpcondVoid);  // on another session
    return true;
  };
  StartActive(this);
  EXPECT_GE(asked(), 3);
  EXPECT_EQ(voids_, 1);  // nothing was cached in between
}

TEST_F(PromiseKeeperTest, LossOfTheControlSessionEndsPromises) {
  StartActive(this);
  holds_ = true;
  before_ = Asked();
  server_.refuse_connections = 1000000;
  server_.connections.front()->Close(absl::OkStatus());
  ASSERT_TRUE(Until([this] { return voids_ == 2; }));
  EXPECT_FALSE(promises().active());
  EXPECT_TRUE(promises().offered());
  server_.refuse_connections = 0;
  ASSERT_TRUE(Until([this] { return session_keeper_->session() != nullptr; }));
  Settle();
  EXPECT_EQ(asked(), 2);  // what was cached is not dropped yet
  DropHeld();
  ASSERT_TRUE(Until([this] { return promises().active(); }));
  EXPECT_EQ(asked(), 3);
  EXPECT_EQ(voids_, 2);
  EXPECT_FALSE(IsGood(before_, HandleOf(1)));
}

TEST_F(PromiseKeeperTest, LossOfTheBackControlChannelEndsPromises) {
  StartActive(this);
  server_.BackControl()->Close(absl::OkStatus());
  ASSERT_TRUE(Until([this] { return voids_ == 2; }));
  ASSERT_TRUE(Until([this] { return promises().active(); }));
  EXPECT_NE(server_.BackControl(), nullptr);
}

TEST_F(PromiseKeeperTest, IdleClientSendsRequestsToKeepPromises) {
  server_.promises.recall_ms = 600;
  StartActive(this);
  before_ = Asked();
  const absl::Time begun = Loop::Now();
  ASSERT_TRUE(Until([&] { return Loop::Now() - begun > absl::Milliseconds(1300); }));
  EXPECT_TRUE(IsGood(before_, HandleOf(1)));
  EXPECT_GE(server_.Count(Proc::kNull), 4);
  EXPECT_EQ(asked(), 2);
}

TEST_F(PromiseKeeperTest, SilenceOfTheServerEndsPromises) {
  server_.promises.recall_ms = 2000;
  StartActive(this);
  before_ = Asked();
  const absl::Time begun = Loop::Now();
  server_.hold = true;
  ASSERT_TRUE(Until([this] { return voids_ == 2; }));
  EXPECT_GE(Loop::Now() - begun, absl::Milliseconds(500));
  // Half of recall_ms. The server may make changes after all of it.
  EXPECT_LT(Loop::Now() - client_->last_activity(), absl::Milliseconds(1500));
  EXPECT_FALSE(promises().active());
  server_.hold = false;
  server_.ServeHeld(*server_.connections.front());
  ASSERT_TRUE(Until([this] { return promises().active(); }));
  EXPECT_FALSE(IsGood(before_, HandleOf(1)));
}

TEST_F(PromiseKeeperTest, FreeLocksAreAnnouncedWhileTheSessionIsGranted) {
  StartActive(this);
  EXPECT_TRUE(client_->locks().announced());
  Locks::Wait wait;
  wait.owner.file = HandleOf(1);
  wait.range = {0, 9, false};
  bool woken = false;
  LoopWait waiting(*loop_);
  wait.waker = waiting.waker();
  client_->locks().BeginWait(&wait);
  Start(Note(waiting, &woken));
  server_.BackControl()->Direct(wire::BcLockFreeArgs{HandleOf(1), 0, 10});
  EXPECT_TRUE(Until([&] { return woken; }));
  EXPECT_TRUE(Until([this] { return !server_.directive_answers.empty(); }));
  EXPECT_THAT(Answered(), ElementsAre(0));
  client_->locks().EndWait(&wait);
  server_.refuse_connections = 1000000;
  server_.connections.front()->Close(absl::OkStatus());
  EXPECT_TRUE(Until([this] { return !client_->locks().announced(); }));
}

TEST_F(PromiseKeeperTest, ObserverMayFinishAfterTheEnd) {
  StartActive(this);
  holds_ = true;
  server_.BackControl()->Direct(Change(HandleOf(1), wire::kChangedAttributes));
  ASSERT_TRUE(Until([this] { return held_.size() == 1; }));
  StopKeeper();
  EXPECT_FALSE(promises().active());
  DropHeld();
  Settle();
  EXPECT_THAT(server_.directive_answers, ElementsAre());
}

// Shows DAFS-6.5.10-02: this client has no delegations from before, so it purges them at once.
// Shows DAFS-6.6.4-02: a recall is answered before the delegation is returned.
// Shows DAFS-6.6.4-04: an unknown file and a wrong state id have different answers.
TEST_F(PromiseKeeperTest, DelegationsEndWhenTheyAreRecalledAndWithThePromises) {
  options_.delegations = true;
  StartActive(nullptr);
  const auto grant = [this](uint8_t number) {
    OpenInfo info;
    info.handle = HandleOf(number);
    info.share_access = wire::kShareRead;
    wire::OpenDelegation granted;
    granted.delegation_type = wire::OpenDelegationType::kRead;
    granted.delegation_state_id = wire::OpaqueFromUint64<wire::StateId>(number);
    const wire::StateId open =
        client_->delegations().Granted(info, granted, wire::ClientId(), promises().sequence());
    client_->delegations().Settle(open, true, "");
    client_->delegations().Close(open);
  };
  const auto recall = [this](uint8_t file, uint8_t number, uint16_t stream) {
    wire::BcRecallArgs args;
    args.filehandle = HandleOf(file);
    args.state_id = wire::OpaqueFromUint64<wire::StateId>(number);
    server_.directive_answers.clear();
    server_.BackControl()->Direct(args, stream);
    EXPECT_TRUE(Until([this] { return !server_.directive_answers.empty(); }));
    return server_.directive_answers.back().status;
  };
  EXPECT_EQ(server_.Count(Proc::kDelegpurge), 1);
  grant(1);
  grant(2);
  EXPECT_EQ(recall(1, 1, 0), DafsStatus::kOk);
  EXPECT_EQ(server_.Count(Proc::kDelegreturn), 0);
  EXPECT_EQ(recall(3, 3, 1), DafsStatus::kBadHandle);
  EXPECT_EQ(recall(3, 2, 2), DafsStatus::kBadHandle);
  EXPECT_EQ(recall(2, 3, 3), DafsStatus::kBadStateId);
  // While it is being returned, the file still has it.
  EXPECT_EQ(recall(1, 1, 4), DafsStatus::kOk);
  EXPECT_EQ(recall(1, 3, 5), DafsStatus::kBadStateId);
  EXPECT_EQ(recall(2, 1, 6), DafsStatus::kBadStateId);
  std::vector<DelegationPtr> due = client_->delegations().returns().TakeDue();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0]->file, HandleOf(1));
  server_.only().Close(absl::UnavailableError("cut"));
  ASSERT_TRUE(Until([this] { return client_->delegations().returns().any_due(); }));
  due = client_->delegations().returns().TakeDue();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0]->file, HandleOf(2));
}

}  // namespace
}  // namespace dafs::client::testing
