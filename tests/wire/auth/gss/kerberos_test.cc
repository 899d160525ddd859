// Kerberos by the GSS library, both sides in one process, with a realm on loopback (tests/realm).
#include "wire/auth/gss/kerberos.h"

#include <gmock/gmock.h>
#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/wire/auth/realm.h"

namespace dafs::auth {
namespace {
// How far the clock of this process is ahead of the realm's, for the Kerberos library.
std::atomic<int64_t> ahead_seconds = 0;
}  // namespace
}  // namespace dafs::auth

// The library reads the time by these functions of libc, which this program replaces.
extern "C" int gettimeofday(timeval* now, void*) noexcept {
  timespec precise = {};
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec + dafs::auth::ahead_seconds;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
extern "C" time_t time(time_t* now) noexcept {
  timeval precise = {};
  gettimeofday(&precise, nullptr);
  if (now != nullptr) *now = precise.tv_sec;
  return precise.tv_sec;
}

namespace dafs::auth {
namespace {

using testing::HasSubstr;

class KerberosTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (access("/usr/sbin/krb5kdc", X_OK) == 0) realm_ = new Realm();
  }
  static void TearDownTestSuite() { delete std::exchange(realm_, nullptr); }
  void SetUp() override {
    if (realm_ == nullptr) GTEST_SKIP() << "needs krb5-kdc, krb5-admin-server and krb5-user";
    ASSERT_TRUE(realm_->serves());
  }

  static std::unique_ptr<Exchange> Client(const std::string& keytab,
                                          const std::string& binding = "",
                                          const std::string& host = "127.0.0.1") {
    auto initiator = NewKerberosInitiator({.server_host = host, .keytab = realm_->Path(keytab)});
    EXPECT_TRUE(initiator.ok()) << initiator.status();
    return (*initiator)->Begin(binding);
  }
  static std::unique_ptr<Exchange> Server(const std::string& binding = "",
                                          const std::string& keytab = "server.keytab") {
    auto acceptor = NewKerberosAcceptor(
        {.keytab = realm_->Path(keytab), .replay_cache = "file2:" + realm_->Path("replays")});
    EXPECT_TRUE(acceptor.ok()) << acceptor.status();
    return (*acceptor)->Begin(binding);
  }
  static std::string FirstToken(Exchange& client) {
    std::string token;
    const auto progress = client.Step("", &token);
    EXPECT_TRUE(progress.ok()) << progress.status();
    return token;
  }
  // Why the server refuses `token`; empty: it takes it.
  static std::string Refusal(Exchange& server, std::string_view token) {
    std::string answer;
    const auto progress = server.Step(token, &answer);
    if (progress.ok()) return "";
    EXPECT_EQ(progress.status().code(), absl::StatusCode::kUnauthenticated);
    return std::string(progress.status().message());
  }

  static Realm* realm_;  // of all tests of this file
};
Realm* KerberosTest::realm_ = nullptr;

// Shows DAFS-3.1.1.1.1-01 (a token each way), DAFS-3.1.1.1.1-02, DAFS-6.2.2-07, DAFS-6.2.2-08,
// DAFS-6.2.2-09 and DAFS-6.2.3-04: one token each way, and both sides know each other.
TEST_F(KerberosTest, OneTokenEachWayProvesBothSides) {
  for (const std::string binding : {"", "12345678901234567890123456789012"}) {
    auto client = Client("client.keytab", binding);
    auto server = Server(binding);
    const std::string token = FirstToken(*client);
    std::string answer, rest;
    auto progress = server->Step(token, &answer);
    ASSERT_TRUE(progress.ok()) << progress.status();
    EXPECT_EQ(*progress, Exchange::Progress::kDone);
    EXPECT_EQ(server->peer_name(), "host/client.test@DAFS.TEST");
    EXPECT_EQ(server->user(), "");  // a machine is not a user
    EXPECT_GT(server->lifetime(), absl::Hours(9));
    EXPECT_FALSE(answer.empty());
    progress = client->Step(answer, &rest);
    ASSERT_TRUE(progress.ok()) << progress.status();
    EXPECT_EQ(*progress, Exchange::Progress::kDone);
    EXPECT_EQ(rest, "");
    EXPECT_GT(client->lifetime(), absl::Hours(9));
  }
}

// Shows DAFS-3.1.1.1.1-01: neither delegation nor the detection of replays or of a wrong sequence.
// The acceptor is the GSS library alone, which reports what the token asks for.
TEST_F(KerberosTest, TokenAsksForMutualAuthenticationOnly) {
  const std::string token = FirstToken(*Client("client.keytab"));
  const std::string keytab = realm_->Path("server.keytab");
  gss_key_value_element_desc places[] = {{"keytab", keytab.c_str()}, {"rcache", "none:"}};
  const gss_key_value_set_desc store = {.count = 2, .elements = places};
  OM_uint32 minor = 0, flags = 0, ignored = 0;
  gss_cred_id_t credential = GSS_C_NO_CREDENTIAL;
  ASSERT_EQ(gss_acquire_cred_from(&minor, GSS_C_NO_NAME, GSS_C_INDEFINITE, GSS_C_NO_OID_SET,
                                  GSS_C_ACCEPT, &store, &credential, nullptr, nullptr),
            GSS_S_COMPLETE);
  gss_ctx_id_t context = GSS_C_NO_CONTEXT;
  gss_buffer_desc in = {.length = token.size(), .value = const_cast<char*>(token.data())};
  gss_buffer_desc answer = GSS_C_EMPTY_BUFFER;
  EXPECT_EQ(gss_accept_sec_context(&minor, &context, credential, &in, GSS_C_NO_CHANNEL_BINDINGS,
                                   nullptr, nullptr, &answer, &flags, nullptr, nullptr),
            GSS_S_COMPLETE);
  const OM_uint32 optional =
      GSS_C_DELEG_FLAG | GSS_C_MUTUAL_FLAG | GSS_C_REPLAY_FLAG | GSS_C_SEQUENCE_FLAG;
  EXPECT_EQ(flags & optional, OM_uint32{GSS_C_MUTUAL_FLAG});
  gss_release_buffer(&ignored, &answer);
  gss_delete_sec_context(&ignored, &context, GSS_C_NO_BUFFER);
  gss_release_cred(&ignored, &credential);
}

// The first token of a client that uses the GSS library alone, as it pleases.
std::string TokenOf(const std::string& keytab, gss_OID mechanism, OM_uint32 flags) {
  OM_uint32 minor = 0, ignored = 0;
  std::string name = "dafs@127.0.0.1";
  gss_buffer_desc text = {.length = name.size(), .value = name.data()};
  gss_name_t target = GSS_C_NO_NAME;
  EXPECT_EQ(gss_import_name(&minor, &text, GSS_C_NT_HOSTBASED_SERVICE, &target), GSS_S_COMPLETE);
  gss_key_value_element_desc places[] = {{"client_keytab", keytab.c_str()},
                                         {"ccache", "MEMORY:as it pleases"}};
  const gss_key_value_set_desc store = {.count = 2, .elements = places};
  gss_cred_id_t credential = GSS_C_NO_CREDENTIAL;
  gss_OID_set_desc mechanisms = {.count = 1, .elements = mechanism};
  EXPECT_EQ(gss_acquire_cred_from(&minor, GSS_C_NO_NAME, GSS_C_INDEFINITE, &mechanisms,
                                  GSS_C_INITIATE, &store, &credential, nullptr, nullptr),
            GSS_S_COMPLETE);
  gss_ctx_id_t context = GSS_C_NO_CONTEXT;
  gss_buffer_desc token = GSS_C_EMPTY_BUFFER;
  const OM_uint32 major = gss_init_sec_context(&minor, credential, &context, target, mechanism,
                                               flags, 0, GSS_C_NO_CHANNEL_BINDINGS, GSS_C_NO_BUFFER,
                                               nullptr, &token, nullptr, nullptr);
  EXPECT_FALSE(GSS_ERROR(major)) << major;
  std::string made(static_cast<const char*>(token.value), token.length);
  gss_release_buffer(&ignored, &token);
  gss_delete_sec_context(&ignored, &context, GSS_C_NO_BUFFER);
  gss_release_cred(&ignored, &credential);
  gss_release_name(&ignored, &target);
  return made;
}

// Shows DAFS-6.2.2-10: the server takes no mechanism but Kerberos, whose mutual authentication
// OneTokenEachWayProvesBothSides shows, and no token that does without it.
// ServerThatCannotProveItselfIsRefused has the client's side.
TEST_F(KerberosTest, OnlyKerberosWithMutualAuthenticationIsTaken) {
  const std::string keytab = realm_->Path("client.keytab");
  gss_OID_desc kerberos = *gss_mech_krb5;
  EXPECT_EQ(Refusal(*Server(), TokenOf(keytab, &kerberos, GSS_C_MUTUAL_FLAG)), "");
  EXPECT_THAT(Refusal(*Server(), TokenOf(keytab, &kerberos, 0)),
              HasSubstr("did not request mutual authentication"));
  gss_OID_desc negotiation = {.length = 6,
                              .elements = const_cast<char*>("\x2b\x06\x01\x05\x05\x02")};
  EXPECT_NE(Refusal(*Server(), TokenOf(keytab, &negotiation, GSS_C_MUTUAL_FLAG)), "");
}

TEST_F(KerberosTest, PrincipalOfTheRealmIsAUserOfTheMachine) {
  auto client = Client("alice.keytab");
  auto server = Server();
  EXPECT_EQ(Refusal(*server, FirstToken(*client)), "");
  EXPECT_EQ(server->peer_name(), "alice@DAFS.TEST");
  EXPECT_EQ(server->user(), "alice");
}

// The client uses the service's answer to know it: a changed one, or none, is refused.
TEST_F(KerberosTest, ServerThatCannotProveItselfIsRefused) {
  auto client = Client("client.keytab");
  auto server = Server();
  std::string answer, rest;
  ASSERT_TRUE(server->Step(FirstToken(*client), &answer).ok());
  answer[answer.size() - 3] = static_cast<char>(answer[answer.size() - 3] ^ 1);
  EXPECT_EQ(client->Step(answer, &rest).status().code(), absl::StatusCode::kUnauthenticated);
}

// A man in the middle of TLS has two connections with two bindings, or TLS on one side only.
TEST_F(KerberosTest, TokenOfAnotherTlsConnectionIsRefused) {
  const std::string mine(32, 'a'), other(32, 'b');
  EXPECT_NE(Refusal(*Server(other), FirstToken(*Client("client.keytab", mine))), "");
  EXPECT_THAT(Refusal(*Server(mine), FirstToken(*Client("client.keytab"))),
              HasSubstr("not bound to its TLS connection"));
}

TEST_F(KerberosTest, TokenThatWasTakenBeforeIsRefused) {
  const std::string token = FirstToken(*Client("client.keytab"));
  EXPECT_EQ(Refusal(*Server(), token), "");
  EXPECT_THAT(Refusal(*Server(), token), HasSubstr("replay"));
}

TEST_F(KerberosTest, TruncatedAndEndlessTokensAreRefused) {
  const std::string token = FirstToken(*Client("client.keytab"));
  for (size_t size = 0; size < token.size(); size += size < 64 ? 1 : 37) {
    EXPECT_NE(Refusal(*Server(), token.substr(0, size)), "") << size;
  }
  EXPECT_NE(Refusal(*Server(), std::string(65535, '\x60')), "");
  EXPECT_NE(Refusal(*Server(), std::string(65535, '\0')), "");
  std::string longer = token;
  longer.resize(65535, 'x');
  EXPECT_NE(Refusal(*Server(), longer), "");
  for (size_t at = 0; at < token.size(); at += 11) {
    std::string changed = token;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    auto server = Server();
    // A few bits mean nothing. No change makes the client another principal.
    if (Refusal(*server, changed).empty()) {
      EXPECT_EQ(server->peer_name(), "host/client.test@DAFS.TEST") << at;
    }
  }
}

TEST_F(KerberosTest, TicketForAnotherServiceIsRefused) {
  // The server has keys of another service only, so it cannot use a token for dafs.
  std::string answer;
  EXPECT_FALSE(
      Server("", "wrong.keytab")->Step(FirstToken(*Client("client.keytab")), &answer).ok());
  // A server that the realm does not know: the client gets no ticket.
  const auto progress = Client("client.keytab", "", "unknown.test")->Step("", &answer);
  EXPECT_EQ(progress.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(progress.status().message()), HasSubstr("dafs/unknown.test"));
}

// The realms have one name and one set of principals; only the keys differ.
TEST_F(KerberosTest, TicketOfAnotherRealmIsRefused) {
  const Realm other;
  ASSERT_TRUE(other.serves());
  auto initiator =
      NewKerberosInitiator({.server_host = "127.0.0.1", .keytab = other.Path("client.keytab")});
  ASSERT_TRUE(initiator.ok()) << initiator.status();
  const std::string token = FirstToken(*(*initiator)->Begin(""));
  realm_->Enter();
  EXPECT_NE(Refusal(*Server(), token), "");
  // A realm that the configuration does not name.
  std::string answer;
  auto lost = NewKerberosInitiator({.server_host = "127.0.0.1",
                                    .keytab = realm_->Path("client.keytab"),
                                    .principal = "host/client.test@OTHER.TEST"});
  ASSERT_TRUE(lost.ok()) << lost.status();
  const absl::Status status = (*lost)->Begin("")->Step("", &answer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("OTHER.TEST"));
}

TEST_F(KerberosTest, ServerWithAnotherTimeRefusesEachToken) {
  for (const int64_t seconds : {-600, 600}) {
    const std::string token = FirstToken(*Client("client.keytab"));
    ahead_seconds = seconds;
    const std::string refusal = Refusal(*Server(), token);
    ahead_seconds = 0;
    EXPECT_THAT(refusal, HasSubstr(seconds < 0 ? "not yet valid" : "Clock skew"));
  }
}

// The library learns the time from the key distribution centre.
TEST_F(KerberosTest, ClientWithAnotherTimeUsesThatOfTheRealm) {
  ahead_seconds = 600;
  const std::string token = FirstToken(*Client("other.keytab"));
  ahead_seconds = 0;
  EXPECT_EQ(Refusal(*Server(), token), "");
}

TEST_F(KerberosTest, ProofEndsWithItsTicket) {
  auto client = Client("brief.keytab");
  auto server = Server();
  const std::string token = FirstToken(*client);
  std::string answer, rest;
  ASSERT_TRUE(server->Step(token, &answer).ok());
  ASSERT_TRUE(client->Step(answer, &rest).ok());
  EXPECT_LE(client->lifetime(), absl::Seconds(6));
  EXPECT_LE(server->lifetime(), absl::Seconds(8));  // and the clock skew that the realm permits
}

TEST_F(KerberosTest, MissingAndOpenKeytabsAreNamed) {
  const auto message = [](const std::string& path) {
    return std::string(
        NewKerberosAcceptor({.keytab = path, .replay_cache = ""}).status().message());
  };
  EXPECT_THAT(message(realm_->Path("none")), HasSubstr("No such file"));
  EXPECT_THAT(message(""), HasSubstr("no keytab"));
  std::filesystem::copy(realm_->Path("server.keytab"), realm_->Path("open.keytab"));
  chmod(realm_->Path("open.keytab").c_str(), 0644);
  EXPECT_THAT(message("FILE:" + realm_->Path("open.keytab")), HasSubstr("chmod 600"));
  std::string answer;
  EXPECT_EQ(Client("none")->Step("", &answer).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace dafs::auth
