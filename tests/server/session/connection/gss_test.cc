// Sessions that authenticate by GSS, with the tokens of tests/wire/auth/fake_gss.h.
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "tests/server/server_fixture.h"
#include "tests/wire/auth/fake_gss.h"

namespace dafs::server {
namespace {

using wire::AuthType;

class GssTest : public ServerTest {
 protected:
  static constexpr char kMachine[] = "host/a.test@R";

  void SetUp() override {
    ServerTest::SetUp();
    options_.acceptor = acceptor_;
    options_.trusted = {"host/*.test@R"};
    if (!options_.exports.empty()) options_.exports[0].sec = kSecKrb5;
  }
  static wire::ClientAuthArgs Auth(const std::string& token, bool continues = false) {
    wire::ClientAuthArgs args;
    args.auth_req.auth_type = AuthType::kGss;
    args.auth_req.procedure =
        continues ? wire::GssProcedure::kContinueInit : wire::GssProcedure::kInit;
    args.auth_req.token = token;
    return args;
  }
  // A session that has connected and not yet authenticated.
  std::unique_ptr<RawClient> Connected(uint64_t verifier = 1) {
    auto client = Connection();
    wire::ClientConnectArgs args;
    args.client_id_string = "c1";
    args.client_verifier = wire::OpaqueFromUint64<wire::Verifier>(verifier);
    args.max_request_size = 69632;
    args.use_response_cache = true;
    EXPECT_EQ(client->Call(args).name(), "DAFS_STATUS_OK");
    return client;
  }
  std::unique_ptr<RawClient> LoggedIn(const std::string& token, uint64_t verifier = 1) {
    auto client = Connected(verifier);
    EXPECT_EQ(client->Call(Auth(token)).name(), "DAFS_STATUS_OK") << token;
    return client;
  }
  static std::string AuthName(RawClient& client, const wire::ClientAuthArgs& args) {
    return client.Call(args).name();
  }

  const std::shared_ptr<auth::testing::FakeAcceptor> acceptor_ =
      std::make_shared<auth::testing::FakeAcceptor>();
};

// Shows DAFS-3.1.1.1.1-02, DAFS-6.1.9-03, DAFS-6.2.2-11, DAFS-6.2.7-01, DAFS-6.2.7-03 and
// DAFS-6.2.3-02: a machine that the server trusts acts for its users.
TEST_F(GssTest, TrustedMachineActsForItsUsers) {
  StartServer();
  auto client = Connected();
  auto secinfo = client->Call(wire::SecinfoArgs());
  ASSERT_EQ(secinfo.res.secinfo.size(), 1u);  // no other method is possible here
  EXPECT_EQ(secinfo.res.secinfo[0].auth_type, AuthType::kGss);
  EXPECT_EQ(secinfo.res.secinfo[0].oid, "oid");
  auto reply = client->Call(Auth(kMachine));
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(reply.res.trusted);
  EXPECT_EQ(reply.res.auth_res.gss_token, "answer");
  EXPECT_EQ(reply.res.auth_res.gss_major, 7u);
  EXPECT_EQ(reply.res.auth_res.gss_minor, 8u);
  wire::ServerAuthArgs server_auth;
  server_auth.auth_type = AuthType::kGss;
  EXPECT_EQ(client->Call(server_auth).name(), "DAFS_STATUS_OK");
  ActAsRoot(*client);
  EXPECT_EQ(client->Call(OpenArgs(LookUp(*client, {"a"}), "new", true)).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-3.1.1.1.2-01, DAFS-3.1.1.1.2-02, DAFS-3.1.1.1.2-06: any other principal is one user,
// registers no other, and has no handle. It stays this user when it proves itself again.
TEST_F(GssTest, UserIsOneUserOnly) {
  StartServer();
  chmod(Path("a").c_str(), 0755);
  auto client = LoggedIn("alice@R daemon");
  wire::RegisterCredArgs cred;
  cred.cred_type = wire::CredType::kId;
  EXPECT_EQ(client->Call(cred).name(), "DAFSERR_NOT_AUTHORIZED");
  const wire::FileHandle a = LookUp(*client, {"a"});
  EXPECT_EQ(client->Call(OpenArgs(a, "new", true)).name(), "DAFSERR_ACCES");
  ASSERT_EQ(chown(Path("a").c_str(), 1, 1), 0);  // daemon
  for (const std::string name : {"new", "newer"}) {
    EXPECT_EQ(client->Call(OpenArgs(a, name, true)).name(), "DAFS_STATUS_OK");
    struct stat made = {};
    ASSERT_EQ(stat(Path("a/" + name).c_str(), &made), 0);
    EXPECT_EQ(made.st_uid, 1u);
    EXPECT_EQ(AuthName(*client, Auth("alice@R daemon")), "DAFS_STATUS_OK");
  }
  client->cred_handle.bytes[0] = 1;
  EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFSERR_NO_CREDS");
  // A principal that is not a user of the machine is refused, as is one without rights to vouch.
  for (const char* token : {"bob@R no-such-user", "host/x.test.other@R", "host/a.test@S", "bad"}) {
    auto other = Connected(2);
    EXPECT_EQ(AuthName(*other, Auth(token)), "DAFSERR_NOT_AUTHORIZED") << token;
    EXPECT_EQ(other->Call(wire::NullArgs()).name(), "DAFSERR_NOT_AUTHENTICATED");
  }
}

// Shows DAFS-3.1.1.1.1-03 and DAFS-7-09: an exchange may take several tokens, and must be begun.
TEST_F(GssTest, ExchangeOfSeveralTokens) {
  StartServer();
  auto client = Connected();
  EXPECT_EQ(AuthName(*client, Auth("more", true)), "DAFSERR_ILLEGAL_STATE");
  auto reply = client->Call(Auth("more"));
  ASSERT_EQ(reply.name(), "DAFSERR_GSS_CONTINUE_INIT");
  EXPECT_FALSE(reply.res.trusted);
  EXPECT_EQ(reply.res.auth_res.gss_token, "answer");
  EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFSERR_NOT_AUTHENTICATED");
  EXPECT_EQ(AuthName(*client, Auth("more", true)), "DAFSERR_GSS_CONTINUE_INIT");
  EXPECT_EQ(AuthName(*client, Auth(kMachine, true)), "DAFS_STATUS_OK");
  // The exchange is over. One without an end is refused.
  EXPECT_EQ(AuthName(*client, Auth("more", true)), "DAFSERR_ILLEGAL_STATE");
  ASSERT_EQ(AuthName(*client, Auth("more")), "DAFSERR_GSS_CONTINUE_INIT");
  std::string last;
  for (int i = 0; i < 16 && last != "DAFSERR_NOT_AUTHORIZED"; ++i) {
    last = AuthName(*client, Auth("more", true));
  }
  EXPECT_EQ(last, "DAFSERR_NOT_AUTHORIZED");
  EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");  // still who it was
}

// Shows DAFS-3.1.1.1.1-05, DAFS-3.1.1.1.1-06 (the server): a request names no exchange, since that
// is the one of its session, and ends with it.
TEST_F(GssTest, AnExchangeBelongsToItsSessionAndEndsWithIt) {
  StartServer();
  auto client = Connected();
  ASSERT_EQ(AuthName(*client, Auth("more")), "DAFSERR_GSS_CONTINUE_INIT");
  EXPECT_EQ(acceptor_->living(), 1);
  auto other = Connected(2);
  EXPECT_EQ(AuthName(*other, Auth("more", true)), "DAFSERR_ILLEGAL_STATE");
  ASSERT_EQ(AuthName(*other, Auth("more")), "DAFSERR_GSS_CONTINUE_INIT");
  EXPECT_EQ(acceptor_->living(), 2);
  EXPECT_EQ(AuthName(*client, Auth(kMachine, true)), "DAFS_STATUS_OK");
  EXPECT_EQ(other->Call(wire::NullArgs()).name(), "DAFSERR_NOT_AUTHENTICATED");
  // One session ends during its exchange, the other one after it.
  other.reset();
  EXPECT_EQ(client->Call(wire::DisconnectArgs()).name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(client->AwaitClosed());
  client.reset();
  const absl::Time deadline = Loop::Now() + kPatience;
  while (server_->connections() > 0 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(server_->connections(), 0u);
  EXPECT_EQ(acceptor_->living(), 0);
}

// Shows DAFS-3.1.1.1.1-07 and DAFS-6.2.2-01: what has expired must be proven again, by the same
// principal.
TEST_F(GssTest, ExpiredSessionMustAuthenticateAgain) {
  StartServer();
  auto client = LoggedIn(std::string(kMachine) + " - 1");
  EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  absl::SleepFor(absl::Milliseconds(1100));
  EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFSERR_NOT_AUTHENTICATED");
  EXPECT_EQ(AuthName(*client, Auth("host/b.test@R")), "DAFSERR_NOT_AUTHORIZED");
  EXPECT_EQ(AuthName(*client, Auth("host/a.test@R - 0")), "DAFSERR_NOT_AUTHORIZED");
  EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFSERR_NOT_AUTHENTICATED");
  EXPECT_EQ(AuthName(*client, Auth(kMachine)), "DAFS_STATUS_OK");
  EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-3.1.1.3-02, DAFS-3.1.1.3-03 and DAFS-6.2.2-12: another principal or method neither
// takes over a session nor joins or replaces a client, with the right verifier or a new one.
TEST_F(GssTest, AnotherPrincipalIsAnotherClient) {
  options_.exports[0].sec = kSecSys | kSecKrb5;
  StartServer();
  auto owner = LoggedIn(kMachine);
  EXPECT_EQ(AuthName(*owner, Auth("host/b.test@R")), "DAFSERR_NOT_AUTHORIZED");
  wire::ClientAuthArgs none;
  EXPECT_EQ(AuthName(*owner, none), "DAFSERR_NOT_AUTHORIZED");
  for (const uint64_t verifier : {1u, 2u}) {
    for (const char* token : {"host/b.test@R", "alice@R daemon"}) {
      EXPECT_EQ(AuthName(*Connected(verifier), Auth(token)), "DAFSERR_CLID_INUSE") << token;
    }
    EXPECT_EQ(AuthName(*Connected(verifier), none), "DAFSERR_CLID_INUSE");
  }
  EXPECT_EQ(owner->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  auto second = LoggedIn(kMachine);
  EXPECT_EQ(second->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-3.1.1.1.2-05: exports decide which methods and principals they take.
TEST_F(GssTest, ExportsDecideWhoIsAdmitted) {
  options_.exports[0].principals = {"host/a.test@R"};
  StartServer();
  auto stranger = Connected();
  EXPECT_EQ(AuthName(*stranger, Auth("host/b.test@R")), "DAFSERR_NOT_AUTHORIZED");
  for (const AuthType method : {AuthType::kNone, AuthType::kDefault}) {
    wire::ClientAuthArgs args;
    args.auth_req.auth_type = method;
    EXPECT_EQ(AuthName(*stranger, args), "DAFSERR_NOT_AUTHORIZED");
  }
  EXPECT_EQ(AuthName(*stranger, Auth(kMachine)), "DAFS_STATUS_OK");

  options_.exports[0].principals.clear();
  options_.exports[0].sec = kSecSys;
  StartServer();
  EXPECT_EQ(AuthName(*Connected(), Auth(kMachine)), "DAFSERR_NOTSUPP")
      << "SECINFO does not offer it either";
}

// Shows DAFS-6.2.4-01: one exchange, if the token fits into it.
TEST_F(GssTest, ConnectAndAuthenticateInOneExchange) {
  StartServer();
  auto client = Connection();
  wire::ClientConnectAuthArgs args = ConnectArgs("c2");
  args.auth_req = Auth("bad").auth_req;
  EXPECT_EQ(client->Call(args).name(), "DAFSERR_NOT_AUTHENTICATED");
  args.auth_req = Auth("more").auth_req;
  EXPECT_EQ(client->Call(args).name(), "DAFSERR_GSS_CONTINUE_INIT");
  EXPECT_EQ(AuthName(*client, Auth(kMachine, true)), "DAFS_STATUS_OK");
  auto other = Connection();
  args = ConnectArgs("c3");
  args.auth_req = Auth(kMachine).auth_req;
  auto reply = other->Call(args);
  EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(reply.res.trusted);
  EXPECT_EQ(reply.res.auth_res.gss_token, "answer");
}

// A token may have 64 KiB.
TEST_F(GssTest, LargeTokensAreTaken) {
  StartServer();
  auto client = Connected();
  EXPECT_EQ(AuthName(*client, Auth("bad" + std::string(65000, 'x'))), "DAFSERR_NOT_AUTHORIZED");
  EXPECT_EQ(AuthName(*client, Auth(kMachine)), "DAFS_STATUS_OK");
}

}  // namespace
}  // namespace dafs::server
