// Calls to the clients that were promised what a request changes, and the wait of that request.
// Spec: WIRE 9.6.
#include <thread>

#include "absl/time/clock.h"
#include "tests/server/promises_fixture.h"
#include "wire/messages/promises.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

TEST_F(PromisesTest, PromisesNeedABackControlChannel) {
  StartServer();
  auto client = Session();
  wire::PromisesArgs args;
  args.most = 10;
  EXPECT_EQ(client->Call(args).name(), "DAFSERR_INVAL");
}

TEST_F(PromisesTest, ServerGrantsAtMostItsLimitAndSaysHowLongItWaits) {
  options_.max_promises = 100;
  StartServer();
  auto client = Connect("c");
  wire::PromisesArgs args;
  args.most = 1000;
  auto reply = client->session->Call(args);
  EXPECT_EQ(reply.res.granted, 100u);
  EXPECT_EQ(reply.res.recall_ms, 60000u);
  EXPECT_EQ(Admit(*client, 7), 7u);
}

TEST_F(PromisesTest, ServerWithoutPromisesGrantsNone) {
  options_.max_promises = 0;
  StartServer();
  auto client = Connect("c");
  EXPECT_EQ(Admit(*client), 0u);
  EXPECT_FALSE(PromisedNames(*client, client->directory));
  EXPECT_FALSE(client->IsVoid());
}

TEST_F(PromisesTest, ChangeIsAppliedAfterTheAnswerOfItsHolder) {
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  auto announced = holder->Take();
  ASSERT_TRUE(announced);
  ASSERT_EQ(announced->changed.size(), 1u);
  EXPECT_EQ(announced->changed[0].filehandle, holder->directory);
  EXPECT_EQ(announced->changed[0].what & wire::kChangedNames, wire::kChangedNames);
  EXPECT_EQ(announced->changed[0].name, "new");
  EXPECT_FALSE(Exists("a/new"));
  EXPECT_FALSE(PromisedNames(*holder, holder->directory)) << "promised while it changes";
  holder->Answer(*announced);
  EXPECT_EQ(other->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(Exists("a/new"));
  EXPECT_TRUE(PromisedNames(*holder, holder->directory));
}

TEST_F(PromisesTest, ClientIsNotCalledAboutItsOwnChange) {
  StartServer();
  auto holder = Holder();
  auto second = Session(ConnectArgs("holder"));  // another session of the same client
  ActAsRoot(*second);
  EXPECT_EQ(holder->session->Call(MakeDirectory(holder->directory, "new")).name(),
            "DAFS_STATUS_OK");
  EXPECT_EQ(second->Call(Remove(holder->directory, "new")).name(), "DAFS_STATUS_OK");
  holder->back->Poll();
  EXPECT_FALSE(holder->back->ready());
}

TEST_F(PromisesTest, TwoHoldersThatChangeOneDirectoryDoNotWaitForEachOther) {
  StartServer();
  auto a = Holder("a");
  auto b = Holder("b");
  ASSERT_TRUE(a->session->SendRequest(MakeDirectory(a->directory, "by_a")));
  ASSERT_TRUE(b->session->SendRequest(MakeDirectory(b->directory, "by_b")));
  auto to_a = a->Take();
  auto to_b = b->Take();
  ASSERT_TRUE(to_a && to_b);
  a->Answer(*to_a);
  b->Answer(*to_b);
  EXPECT_EQ(a->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(b->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
}

TEST_F(PromisesTest, ChangeWaitsForASilentHolderUntilTheRecallTime) {
  options_.recall_time = absl::Milliseconds(300);
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  const absl::Time start = Loop::Now();
  EXPECT_EQ(other->session->Call(MakeDirectory(other->directory, "new")).name(), "DAFS_STATUS_OK");
  EXPECT_GE(Loop::Now() - start, absl::Milliseconds(300));
  auto announced = holder->Take();
  ASSERT_TRUE(announced);
  EXPECT_TRUE(holder->IsVoid());
  EXPECT_FALSE(PromisedNames(*holder, holder->directory));
  // The next change does not wait, and a late answer changes nothing.
  EXPECT_EQ(other->session->Call(Remove(other->directory, "new")).name(), "DAFS_STATUS_OK");
  holder->Answer(*announced);
  EXPECT_TRUE(holder->IsVoid());
  EXPECT_GT(Admit(*holder), 0u);
  EXPECT_FALSE(holder->IsVoid());
  EXPECT_TRUE(PromisedNames(*holder, holder->directory));
}

// The holder learns it before the change is made, though only its Back-control Channel is silent.
TEST_F(PromisesTest, SilentHolderLearnsHalfWayThatItsPromisesEnd) {
  options_.recall_time = absl::Seconds(2);
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  const absl::Time start = Loop::Now();
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  ASSERT_TRUE(holder->Take());
  EXPECT_FALSE(holder->IsVoid());
  while (!holder->IsVoid() && Loop::Now() - start < absl::Seconds(5)) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_LT(Loop::Now() - start, absl::Milliseconds(1900));
  EXPECT_EQ(other->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_GE(Loop::Now() - start, absl::Seconds(2));
}

TEST_F(PromisesTest, AnswerWithAnErrorVoidsAllPromisesAndKeepsTheChannel) {
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  auto announced = holder->Take();
  ASSERT_TRUE(announced);
  holder->Answer(*announced, DafsStatus::kServerFault);
  EXPECT_EQ(other->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(holder->IsVoid());
  // The channel serves the next promises.
  EXPECT_GT(Admit(*holder), 0u);
  EXPECT_TRUE(PromisedNames(*holder, holder->directory));
  ASSERT_TRUE(other->session->SendRequest(Remove(other->directory, "new")));
  announced = holder->Take();
  ASSERT_TRUE(announced);
  holder->Answer(*announced);
  EXPECT_EQ(other->session->ReceiveReply<wire::RemoveArgs>().name(), "DAFS_STATUS_OK");
}

TEST_F(PromisesTest, LostHolderIsVoidAfterTheRecallTime) {
  options_.recall_time = absl::Milliseconds(300);
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  holder.reset();
  const absl::Time start = Loop::Now();
  EXPECT_EQ(other->session->Call(MakeDirectory(other->directory, "new")).name(), "DAFS_STATUS_OK");
  EXPECT_GE(Loop::Now() - start, absl::Milliseconds(200));
}

TEST_F(PromisesTest, ChannelCutDuringACallDelaysTheChangeUntilTheClientTakesPartAgain) {
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  ASSERT_TRUE(holder->Take());
  holder.reset();
  auto again = Connect("holder");
  other->session->Poll();
  EXPECT_FALSE(other->session->ready());
  EXPECT_FALSE(Exists("a/new"));
  EXPECT_GT(Admit(*again), 0u);
  EXPECT_EQ(other->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
}

TEST_F(PromisesTest, DisconnectEndsThePromisesAtOnce) {
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  EXPECT_EQ(holder->session->Call(wire::DisconnectArgs()).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(other->session->Call(MakeDirectory(other->directory, "new")).name(), "DAFS_STATUS_OK");
}

TEST_F(PromisesTest, NewInstanceOfTheClientEndsThePromisesAtOnce) {
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  ASSERT_TRUE(holder->Take());
  auto next = Connect("holder", /*verifier=*/2);
  EXPECT_EQ(other->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_FALSE(next->IsVoid());
}

TEST_F(PromisesTest, ManyCallsGoTogetherThroughFewCredits) {
  constexpr int kEach = 50;
  constexpr int kRequesters = 4;
  StartServer();
  auto holder = Holder("holder", /*credits=*/2);
  std::vector<wire::FileHandle> directories;
  for (int i = 0; i < kEach * kRequesters; ++i) {
    const std::string name = "d" + std::to_string(i);
    mkdir(Path("a/" + name).c_str(), 0777);
    directories.push_back(LookUp(*holder->session, {"a", name}));
    ASSERT_TRUE(PromisedNames(*holder, directories.back()));
  }
  std::vector<std::unique_ptr<PromisedClient>> requesters;
  for (int i = 0; i < kRequesters; ++i) {
    auto& requester = requesters.emplace_back(Connect("r" + std::to_string(i)));
    for (int j = 0; j < kEach; ++j) {
      const std::string name = "a-name-of-some-length-" + std::to_string(j);
      ASSERT_TRUE(requester->session->SendRequest(
          MakeDirectory(directories[static_cast<size_t>(i * kEach + j)], name),
          static_cast<uint16_t>(j)));
    }
  }
  size_t announced = 0;
  size_t messages = 0;
  while (announced < directories.size()) {
    auto next = holder->Take();
    ASSERT_TRUE(next);
    announced += next->changed.size();
    ++messages;
    holder->Answer(*next);
  }
  EXPECT_EQ(announced, directories.size());
  EXPECT_LT(messages, directories.size() / 2);
  for (auto& requester : requesters) {
    for (int j = 0; j < kEach; ++j) {
      EXPECT_EQ(requester->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
    }
  }
  EXPECT_FALSE(holder->IsVoid());
}

TEST_F(PromisesTest, LostRequesterIsNotExecuted) {
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  auto announced = holder->Take();
  ASSERT_TRUE(announced);
  other.reset();
  const absl::Time deadline = Loop::Now() + kPatience;
  while (server_->connections() > 2 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(server_->connections(), 2u);
  holder->Answer(*announced);
  EXPECT_FALSE(holder->IsVoid());
  EXPECT_FALSE(Exists("a/new"));
}

TEST_F(PromisesTest, ServerStopsWhileARequestWaits) {
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  ASSERT_TRUE(holder->Take());
  const absl::Time start = Loop::Now();
  EXPECT_TRUE(server_->Stop());
  EXPECT_LT(Loop::Now() - start, absl::Seconds(30));
  EXPECT_FALSE(Exists("a/new"));
}

TEST_F(PromisesTest, ExpiredLeaseEndsThePromises) {
  options_.lease_time = absl::Milliseconds(200);
  StartServer();
  auto holder = Holder();
  auto other = Connect("other");
  holder.reset();
  EXPECT_EQ(other->session->Call(MakeDirectory(other->directory, "new")).name(), "DAFS_STATUS_OK");
}

TEST_F(PromisesTest, RestartedServerWaitsForTheClientThatHadPromises) {
  StartServer();
  auto holder = Holder();
  holder.reset();
  StartServer();
  auto other = Connect("other");
  ASSERT_TRUE(other->session->SendRequest(MakeDirectory(other->directory, "new")));
  auto again = Connect("holder");
  other->session->Poll();
  EXPECT_FALSE(other->session->ready());
  EXPECT_FALSE(Exists("a/new"));
  EXPECT_GT(Admit(*again), 0u);
  EXPECT_EQ(other->session->ReceiveReply<wire::CreateArgs>().name(), "DAFS_STATUS_OK");
}

TEST_F(PromisesTest, RestartedServerWaitsUntilTheRecallTime) {
  StartServer();
  Holder().reset();
  options_.recall_time = absl::Milliseconds(500);
  const absl::Time start = Loop::Now();
  StartServer();
  auto other = Connect("other");
  EXPECT_EQ(other->session->Call(MakeDirectory(other->directory, "new")).name(), "DAFS_STATUS_OK");
  EXPECT_GE(Loop::Now() - start, absl::Milliseconds(500));
  // The note is gone with it.
  options_.recall_time = absl::Seconds(60);
  other.reset();
  StartServer();
  other = Connect("other");
  EXPECT_EQ(other->session->Call(Remove(other->directory, "new")).name(), "DAFS_STATUS_OK");
}

TEST_F(PromisesTest, RestartedServerDoesNotWaitForAClientThatHadDisconnected) {
  StartServer();
  auto holder = Holder();
  EXPECT_EQ(holder->session->Call(wire::DisconnectArgs()).name(), "DAFS_STATUS_OK");
  holder.reset();
  StartServer();
  auto other = Connect("other");
  EXPECT_EQ(other->session->Call(MakeDirectory(other->directory, "new")).name(), "DAFS_STATUS_OK");
}

TEST_F(PromisesTest, NewInstanceAfterARestartIsNotWaitedFor) {
  StartServer();
  Holder().reset();
  StartServer();
  auto other = Connect("other");
  auto next = Connect("holder", /*verifier=*/2);
  EXPECT_EQ(other->session->Call(MakeDirectory(other->directory, "new")).name(), "DAFS_STATUS_OK");
}

}  // namespace
}  // namespace dafs::server
