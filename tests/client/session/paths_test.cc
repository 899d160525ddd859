// Sessions over several addresses: two scripted servers, which are two paths to one server or two
// servers.
#include <arpa/inet.h>

#include "client/session/session_keeper.h"
#include "tests/client/scripted_fixture.h"

namespace dafs::client::testing {
namespace {

using ::testing::HasSubstr;
using wire::Proc;

// Leads to the server with the number of the address: 127.0.0.1 to the first one.
class TwoServers final : public dat::Provider {
 public:
  explicit TwoServers(ScriptedServer& first, ScriptedServer& second) : servers_{&first, &second} {}
  const char* name() const override { return "scripted"; }
  absl::StatusOr<std::unique_ptr<dat::Listener>> Listen(const dat::Address&) override {
    return absl::UnimplementedError("scripted");
  }
  absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> Resolve(const dat::Address& peer,
                                                                const std::string& device,
                                                                absl::Duration timeout) override {
    const auto* address = reinterpret_cast<const sockaddr_in*>(peer.get());
    return servers_[(ntohl(address->sin_addr.s_addr) & 0xff) - 1]->Resolve(peer, device, timeout);
  }

 private:
  ScriptedServer* const servers_[2];
};

class SessionPathsTest : public ScriptedTest {
 protected:
  SessionPathsTest() {
    options_.providers = {&both_};
    options_.addresses = {dat::ResolveHost("127.0.0.1", 1)->front(),
                          dat::ResolveHost("127.0.0.2", 1)->front()};
    options_.path_retry = absl::Milliseconds(5);
    Identify(server_, 1);
    Identify(other_, 1);
  }
  ~SessionPathsTest() override {
    for (auto& keeper : keepers_) keeper->Shutdown();
    keepers_.clear();
    EXPECT_THAT(other_.violations, ::testing::IsEmpty());
  }

  static void Identify(ScriptedServer& server, uint8_t number) {
    server.extensions = wire::kExtensionLockWaits;
    wire::ServerIdentityRes identity;
    identity.server_id.bytes[0] = number;
    identity.cluster_id = "c";
    server.identity = identity;
  }
  // Makes it an older server.
  static void Forget(ScriptedServer& server) { server.identity.reset(); }

  SessionKeeper& Add() {
    if (client_ == nullptr) MakeClient();
    auto pool = BufferPool::Create(options_.buffers);
    EXPECT_OK(pool);
    pools_.push_back(*std::move(pool));
    keepers_.push_back(
        std::make_unique<SessionKeeper>(*client_, *loop_, pools_.back().get(), "worker"));
    EXPECT_OK(Await(keepers_.back()->ConnectOnce()));
    return *keepers_.back();
  }
  bool IsUp(const SessionKeeper& keeper) { return keeper.session() != nullptr; }
  std::string PathOf(const SessionKeeper& keeper) {
    return IsUp(keeper) ? keeper.session()->peer().ToString() : "none";
  }
  static uint64_t Connects(const SessionKeeper& keeper) {
    WorkerReport report;
    keeper.Fill(report);
    return report.connects;
  }

  ScriptedServer other_;
  TwoServers both_{server_, other_};
  std::vector<std::unique_ptr<BufferPool>> pools_;  // outlive the keepers
  std::vector<std::unique_ptr<SessionKeeper>> keepers_;
};

TEST_F(SessionPathsTest, EachAddressHasOneOfTwoSessions) {
  SessionKeeper &first = Add(), &second = Add();
  EXPECT_EQ(PathOf(first), "127.0.0.1:1");
  EXPECT_EQ(PathOf(second), "127.0.0.2:1");
}

TEST_F(SessionPathsTest, ServerWithoutIdentityHasAllSessionsAtItsFirstAddress) {
  Forget(server_);
  Forget(other_);
  SessionKeeper &first = Add(), &second = Add();
  EXPECT_EQ(PathOf(first), "127.0.0.1:1");
  EXPECT_EQ(PathOf(second), "127.0.0.1:1");
  server_.refuse_connections = 1000;
  server_.only().Close(absl::UnavailableError("the path failed"));
  EXPECT_TRUE(Until([&] { return PathOf(second) == "127.0.0.2:1"; }));
}

TEST_F(SessionPathsTest, SessionWhosePathFailsTakesTheNextWhileTheOtherStays) {
  options_.path_retry = absl::Hours(1);
  SessionKeeper &first = Add(), &second = Add();
  server_.only().Close(absl::UnavailableError("the path failed"));
  ASSERT_TRUE(Until([&] { return PathOf(first) == "127.0.0.2:1"; }));
  EXPECT_EQ(Connects(first), 2u);
  EXPECT_EQ(Connects(second), 1u);
  EXPECT_EQ(server_.connections_made, 1) << "the path that failed is not tried first";
  WorkerReport report;
  first.Fill(report);
  EXPECT_EQ(report.session.passed_over, "");
}

TEST_F(SessionPathsTest, AddressOfAnotherServerGetsNoSession) {
  options_.path_retry = absl::Hours(1);
  Identify(other_, 2);
  SessionKeeper &first = Add(), &second = Add();
  EXPECT_EQ(PathOf(first), "127.0.0.1:1");
  EXPECT_EQ(PathOf(second), "127.0.0.1:1");
  WorkerReport report;
  second.Fill(report);
  EXPECT_THAT(report.session.passed_over, HasSubstr("127.0.0.2:1 leads to server 02"));
  server_.refuse_connections = 1'000'000;
  server_.only().Close(absl::UnavailableError("the path failed"));
  const int before = other_.connections_made;
  ASSERT_TRUE(Until([&] { return other_.connections_made > before + 1; }));
  EXPECT_FALSE(IsUp(second));
  for (const ScriptedServer::Seen& seen : other_.log) {
    EXPECT_TRUE(seen.proc == Proc::kClientConnectAuth || seen.proc == Proc::kExtensions ||
                seen.proc == Proc::kServerIdentity)
        << static_cast<uint32_t>(seen.proc);
  }
}

TEST_F(SessionPathsTest, ExtensionsOfAnotherServerAreNotUsed) {
  Identify(other_, 2);
  other_.extensions |= wire::kExtensionByteNames;
  Add();
  Add();
  EXPECT_EQ(client_->limits().extensions & wire::kExtensionByteNames, 0u);
}

TEST_F(SessionPathsTest, ServerThatReplacesItAtBothAddressesIsTaken) {
  SessionKeeper& first = Add();
  Add();
  Identify(server_, 2);
  Identify(other_, 2);
  other_.only().Close(absl::UnavailableError("replaced"));
  server_.only().Close(absl::UnavailableError("replaced"));
  EXPECT_TRUE(Until([&] {
    return IsUp(first) && first.session()->negotiated().identity->server_id.bytes[0] == 2;
  }));
}

TEST_F(SessionPathsTest, PathThatWorksAgainGetsItsSessionBack) {
  SessionKeeper &first = Add(), &second = Add();
  server_.refuse_connections = 3;
  server_.only().Close(absl::UnavailableError("the path failed"));
  ASSERT_TRUE(Until([&] { return PathOf(first) == "127.0.0.2:1"; }));
  ASSERT_TRUE(
      Until([&] { return IsUp(first) && IsUp(second) && PathOf(first) != PathOf(second); }));
  Settle();
  EXPECT_NE(PathOf(first), PathOf(second));
  EXPECT_EQ(Connects(first) + Connects(second), 4u) << "one loss, one change";
  EXPECT_EQ(server_.refuse_connections, 0);
}

TEST_F(SessionPathsTest, ShutdownEndsATrialOfAPath) {
  Add();
  Add();
  const int before = server_.connections_made;
  server_.script = [](ScriptedConnection&, const Request&) { return true; };  // no answers
  server_.only().Close(absl::UnavailableError("the path failed"));
  EXPECT_TRUE(Until([&] { return server_.connections_made > before; }));
  Settle();
}

}  // namespace
}  // namespace dafs::client::testing
