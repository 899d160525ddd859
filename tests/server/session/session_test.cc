// Connecting, negotiating, authenticating, credentials, ending: server/procedures/connect.cc and
// what it uses.
#include <algorithm>
#include <bit>
#include <csignal>
#include <cstring>
#include <set>

#include "server/clients/credentials.h"
#include "tests/server/server_fixture.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {
namespace {

using wire::AuthType;
using wire::ByteOrder;

class SessionTest : public ServerTest {
 protected:
  static wire::ClientConnectArgs Plain(const std::string& name, uint64_t verifier = 1) {
    wire::ClientConnectArgs args;
    args.client_id_string = name;
    args.client_verifier = wire::OpaqueFromUint64<wire::Verifier>(verifier);
    return args;
  }
  static wire::ClientAuthArgs Auth(AuthType type) {
    wire::ClientAuthArgs args;
    args.auth_req.auth_type = type;
    return args;
  }
  // Returns whether the server refuses a connection.
  bool IsRefused() {
    auto client = RawClient::Connect(*provider_, address(), 4);
    return client == nullptr || client->AwaitClosed();
  }
  static wire::RegisterCredArgs Cred(int32_t uid) {
    wire::RegisterCredArgs args;
    args.cred_type = wire::CredType::kId;
    args.uid = args.gid = uid;
    return args;
  }
};

// Shows DAFS-6.2.7-02, DAFS-6.2.2-02, DAFS-6.2.1-02, DAFS-6.2.2-13, DAFS-3.1.2.3.2-02,
// DAFS-3.1.2.3.2-03, DAFS-3.1.1.1-02 (the server); WIRE 9.2 steps 4 and 5.
TEST_F(SessionTest, ConnectThenAuthenticateInBothByteOrders) {
  StartServer();
  for (ByteOrder order : {ByteOrder::kLittle, ByteOrder::kBig}) {
    auto client = Connection();
    client->order = order;
    EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFSERR_ILLEGAL_STATE");
    auto connect = client->Call(Plain("c"));
    ASSERT_EQ(connect.name(), "DAFS_STATUS_OK");
    EXPECT_FALSE(connect.res.session_id.is_zero());
    EXPECT_FALSE(connect.res.client_id.is_zero());
    EXPECT_EQ(connect.header.target_nreq, connect.res.max_requests);
    EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFSERR_NOT_AUTHENTICATED");
    auto secinfo = client->Call(wire::SecinfoArgs());
    EXPECT_EQ(secinfo.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(secinfo.res.secinfo.size(), 2u);
    EXPECT_EQ(client->Call(Auth(AuthType::kGss)).name(), "DAFSERR_NOTSUPP");
    auto auth = client->Call(Auth(AuthType::kDefault));
    EXPECT_EQ(auth.name(), "DAFS_STATUS_OK");
    EXPECT_TRUE(auth.res.trusted);
    EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
    // Shows DAFS-6.2.1-11.
    EXPECT_EQ(client->Call(Plain("c")).name(), "DAFSERR_ILLEGAL_STATE");
    wire::ServerAuthArgs server_auth;
    EXPECT_EQ(client->Call(server_auth).name(), "DAFS_STATUS_OK");
    client->Close();
  }
}

// Shows DAFS-6.2.2-01: every request but the authentication and SECINFO. CONNECT requests do not
// fit a session at all (WIRE 9.2 step 4), and DISCONNECT ends it at any time.
TEST_F(SessionTest, EveryRequestBeforeAuthenticationIsRefused) {
  StartServer();
  auto client = Connection();
  ASSERT_EQ(client->Call(Plain("c")).name(), "DAFS_STATUS_OK");
  const std::set<wire::Proc> others = {wire::Proc::kClientConnect, wire::Proc::kClientConnectAuth,
                                       wire::Proc::kConnectBind,   wire::Proc::kClientAuth,
                                       wire::Proc::kSecinfo,       wire::Proc::kDisconnect};
  for (const wire::ProcInfo& info : wire::kProcedures) {
    if (others.contains(info.number)) continue;
    Bytes message = client->Encode(client->Header(), wire::NullArgs());
    message.resize(message.size() + (info.args_size + 7u) / 8 * 8);
    const auto size = static_cast<uint32_t>(message.size());
    std::memcpy(&message[32], &info.number, sizeof(info.number));
    std::memcpy(&message[36], &size, sizeof(size));
    ASSERT_TRUE(client->Send(message));
    EXPECT_EQ(client->ReceiveReply<wire::NullArgs>().name(), "DAFSERR_NOT_AUTHENTICATED")
        << info.name;
  }
  EXPECT_EQ(client->Call(Auth(AuthType::kNone)).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-6.5.1-01: a file and the current filehandle of a chain are the same after NULL.
TEST_F(SessionTest, NullIsABareHeaderBothWays) {
  StartServer();
  WriteFile("a/f", "content");
  auto client = Session();
  ActAsRoot(*client);
  wire::GetattrInlineArgs getattr;
  getattr.filehandle = LookUp(*client, {"a", "f"});
  getattr.attr_request_bitmap = wire::kFattrObjectType | wire::kFattrMode | wire::kFattrNumLinks |
                                wire::kFattrChange | wire::kFattrObjectSize | wire::kFattrFileId |
                                wire::kFattrSpaceUsed | wire::kFattrTimeAccess |
                                wire::kFattrTimeMetadata | wire::kFattrTimeModify |
                                wire::kFattrOwner | wire::kFattrOwnerGroup;
  const auto before = client->Call(getattr);
  ASSERT_EQ(before.name(), "DAFS_STATUS_OK");
  const Bytes request = client->Encode(client->Header(), wire::NullArgs());
  EXPECT_EQ(request.size(), size_t{wire::kHeaderSize});
  ASSERT_TRUE(client->Send(request));
  auto reply = client->ReceiveReply<wire::NullArgs>();
  EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(reply.message.size(), size_t{wire::kHeaderSize});
  EXPECT_EQ(reply.header.target_nreq, negotiated_.max_requests);
  EXPECT_EQ(reply.header.spec_cond, 0u);
  const auto after = client->Call(getattr);
  ASSERT_EQ(after.name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(after.res.obj_attributes == before.res.obj_attributes);

  wire::GetattrInlineArgs of_current = getattr;
  of_current.filehandle = {};
  ASSERT_TRUE(client->SendRequest(getattr, 0, wire::kChfForw));
  ASSERT_TRUE(client->SendRequest(wire::NullArgs(), 1, wire::kChfForw | wire::kChfBack));
  ASSERT_TRUE(client->SendRequest(of_current, 2, wire::kChfBack | wire::kChfFh));
  EXPECT_EQ(client->ReceiveReply<wire::GetattrInlineArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_EQ(client->ReceiveReply<wire::NullArgs>().name(), "DAFS_STATUS_OK");
  const auto current = client->ReceiveReply<wire::GetattrInlineArgs>();
  ASSERT_EQ(current.name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(current.res.obj_attributes == before.res.obj_attributes);
  EXPECT_EQ(ReadFile("a/f"), "content");
}

// Shows DAFS-6.2.1-03, DAFS-6.2.1-07, DAFS-3.1.2.2-03, DAFS-3.1.2.2-05, DAFS-3.1.2.2-07,
// DAFS-3.1.2.2-08; WIRE 11.3.
TEST_F(SessionTest, NegotiatedValuesStayWithinTheBounds) {
  StartServer();
  struct Case {
    uint32_t asked_request, asked_response, asked_requests, asked_write;
    uint32_t request, response, requests, write;
  };
  const uint32_t most = options_.max_message_bytes;
  const Case cases[] = {
      {0, 0, 0, 0, options_.default_message_bytes, options_.default_message_bytes,
       options_.default_requests, 0},
      {1, 7, 1, 1, 1024, 1024, 1, 136},
      {1024, 1031, 2, 136, 1024, 1024, 2, 136},
      {4100, 5000, 5, 207, 4096, 5000, 5, 200},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, most, most, options_.max_requests, most},
  };
  for (const Case& c : cases) {
    for (bool checksums : {false, true}) {
      auto client = Connection();
      wire::ClientConnectArgs args = Plain("n");
      args.use_checksums = checksums;
      args.use_response_cache = args.use_back_control_channel = args.use_rdma_read_channel = true;
      args.max_request_size = c.asked_request;
      args.max_response_size = c.asked_response;
      args.max_requests = c.asked_requests;
      args.inline_write_header_size = c.asked_write;
      auto reply = client->Call(args);
      ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
      EXPECT_EQ(reply.res.use_checksums, checksums);
      EXPECT_TRUE(reply.res.use_response_cache);
      EXPECT_TRUE(reply.res.use_back_control_channel);
      EXPECT_TRUE(reply.res.use_rdma_read_channel);
      EXPECT_EQ(reply.res.max_request_size, c.request);
      EXPECT_EQ(reply.res.max_response_size, c.response);
      EXPECT_EQ(reply.res.max_requests, c.requests);
      EXPECT_EQ(reply.res.inline_write_header_size, c.write);
    }
  }
}

// Shows DAFS-6.2.1-09, DAFS-6.1.2-04, DAFS-6.1.2-05; WIRE 11.4 (the channel stays open), R54.
TEST_F(SessionTest, OtherVersionIsRefusedAndTheNextConnectSucceeds) {
  StartServer();
  auto client = Connection();
  for (uint32_t version : {0u, 2u, 0xffffffffu}) {
    wire::RequestHeader header = client->Header();
    header.protocol_version = version;
    ASSERT_TRUE(client->Send(client->Encode(header, Plain("v"))));
    auto reply = client->ReceiveReply<wire::ClientConnectArgs>();
    EXPECT_EQ(reply.name(), "DAFSERR_ILLEGAL_PROT");
    EXPECT_EQ(reply.header.protocol_version, version == 0 ? 0u : 1u);
    EXPECT_EQ(reply.header.target_nreq, 1);
  }
  EXPECT_EQ(client->Call(Plain("v")).name(), "DAFS_STATUS_OK");
}

// WIRE 3.1: the client chooses the first number of a stream; connect requests do not count.
TEST_F(SessionTest, ConnectRequestsMayRepeatTheirNumber) {
  StartServer();
  auto client = Connection();
  wire::RequestHeader header = client->Header();
  header.seq_number = 7;
  header.protocol_version = 2;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(client->Send(client->Encode(header, Plain("n"))));
    EXPECT_EQ(client->ReceiveReply<wire::ClientConnectArgs>().name(), "DAFSERR_ILLEGAL_PROT");
  }
  header.protocol_version = 1;
  ASSERT_TRUE(client->Send(client->Encode(header, ConnectArgs("n"))));
  EXPECT_EQ(client->ReceiveReply<wire::ClientConnectAuthArgs>().name(), "DAFS_STATUS_OK");
  for (const char* status : {"DAFS_STATUS_OK", "DAFSERR_INVAL"}) {
    ASSERT_TRUE(client->Send(client->Encode(header, wire::NullArgs())));
    EXPECT_EQ(client->ReceiveReply<wire::NullArgs>().name(), status);
  }
}

// WIRE section 6: connect requests carry no checksum, in any state of the channel.
TEST_F(SessionTest, ConnectRequestOnASessionWithChecksumsIsRefused) {
  StartServer();
  wire::ClientConnectAuthArgs args = ConnectArgs("sum");
  args.use_checksums = true;
  auto client = Session(args);
  EXPECT_EQ(client->Call(args).name(), "DAFSERR_ILLEGAL_STATE");
  EXPECT_EQ(client->Call(Plain("sum")).name(), "DAFSERR_ILLEGAL_STATE");
  EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-3.2.5-03, DAFS-3.2.5-04.
TEST_F(SessionTest, RequestWithABadChecksumIsAnsweredButNotExecuted) {
  StartServer();
  for (ByteOrder order : {ByteOrder::kLittle, ByteOrder::kBig}) {
    wire::ClientConnectAuthArgs args = ConnectArgs("sum");
    args.use_checksums = true;
    auto client = Session(args, order);
    EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
    Bytes message = client->Encode(client->Header(), wire::DisconnectArgs());
    message[25] ^= std::byte{1};
    ASSERT_TRUE(client->Send(message));
    EXPECT_EQ(client->ReceiveReply<wire::DisconnectArgs>().name(), "DAFSERR_CHKSUM");
    EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  }
}

// Shows DAFS-3.1.1.3-01, DAFS-3.1.1.3-02, DAFS-3.1.1.3-03, DAFS-3.1.1.3-05 (the error),
// DAFS-4.4.1.1-01, DAFS-7-16; R80.
TEST_F(SessionTest, ClientIdsFollowNameVerifierAndPrincipal) {
  StartServer();
  auto first = Session(ConnectArgs("one", 1));
  const wire::ClientId id = negotiated_.client_id;
  auto second = Session(ConnectArgs("one", 1));
  EXPECT_EQ(negotiated_.client_id, id);
  auto other = Session(ConnectArgs("two", 1));
  EXPECT_NE(negotiated_.client_id, id);
  // Another method is another principal, with the same verifier and with a new one.
  for (uint64_t verifier : {uint64_t{1}, uint64_t{2}}) {
    wire::ClientConnectAuthArgs args = ConnectArgs("one", verifier);
    args.auth_req.auth_type = AuthType::kDefault;
    auto client = Connection();
    EXPECT_EQ(client->Call(args).name(), "DAFSERR_CLID_INUSE");
    // No session exists afterwards, so a connect is possible.
    EXPECT_EQ(client->Call(ConnectArgs("one", 1)).name(), "DAFS_STATUS_OK");
  }
  EXPECT_EQ(first->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-3.1.1.3-06, DAFS-3.1.1.3-07, DAFS-4.4.1.5-01, DAFS-4.4.1.5-06: the old instance keeps
// its opens until the new one has authenticated, and no longer.
TEST_F(SessionTest, NewVerifierReleasesTheOldInstanceAfterAuthentication) {
  StartServer();
  WriteFile("a/f", "x");
  auto old = Session(ConnectArgs("boot", 1));
  ActAsRoot(*old);
  const wire::FileHandle directory = LookUp(*old, {"a"});
  wire::OpenArgs open = OpenArgs(directory, "f", false);
  open.share_deny = 3;
  ASSERT_EQ(old->Call(open).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(server_->open_count(), 1u);

  auto fresh = Connection();
  auto connected = fresh->Call(Plain("boot", 2));
  ASSERT_EQ(connected.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(server_->open_count(), 1u);
  EXPECT_EQ(old->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  ASSERT_EQ(fresh->Call(Auth(AuthType::kNone)).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(server_->open_count(), 0u);
  ActAsRoot(*fresh);
  EXPECT_EQ(fresh->Call(open).name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(old->AwaitClosed());
}

// No export admits a client whose port is not reserved, unless the export is `insecure`.
TEST_F(SessionTest, SecureExportRefusesAClientWithoutAReservedPort) {
  if (dat::testing::OverRdma()) GTEST_SKIP() << "needs a TCP provider without a reserved port";
  Export insecure = options_.exports[0];
  mkdir(Path("b").c_str(), 0777);
  insecure.name = "/b";
  insecure.directory = Path("b");
  insecure.insecure = true;
  StartServer();
  const std::shared_ptr<dat::Provider> of_server = provider_;
  provider_ = dat::NewIwarpProvider({.reserved_port = false});
  auto stranger = Connection();
  EXPECT_EQ(stranger->Call(ConnectArgs("u")).name(), "DAFSERR_NOT_AUTHENTICATED");
  wire::ClientConnectAuthArgs anonymous = ConnectArgs("u");
  anonymous.auth_req.auth_type = AuthType::kDefault;
  auto reply = stranger->Call(anonymous);
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_FALSE(reply.res.trusted);
  EXPECT_EQ(stranger->Call(Cred(0)).name(), "DAFSERR_NOT_AUTHORIZED");
  EXPECT_EQ(stranger->Call(wire::GetRootHandleArgs()).name(), "DAFSERR_WRONGSEC");

  // One export trusts the client. The other does not admit it.
  options_.exports.push_back(insecure);
  StartServer();
  auto client = Session("v");
  ActAsRoot(*client);
  wire::LookupArgs lookup;
  lookup.directory = Root(*client);
  lookup.path = {"a"};
  EXPECT_EQ(client->Call(lookup).name(), "DAFSERR_WRONGSEC");
  lookup.path = {"b"};
  EXPECT_EQ(client->Call(lookup).name(), "DAFS_STATUS_OK");
}

// A channel of a session with a reserved port needs a reserved port too.
TEST_F(SessionTest, ChannelNeedsAReservedPortIfItsSessionHasOne) {
  if (dat::testing::OverRdma()) GTEST_SKIP() << "needs a TCP provider without a reserved port";
  options_.exports[0].insecure = true;
  options_.workers = 1;
  StartServer();
  wire::ClientConnectAuthArgs args = ConnectArgs("b");
  args.use_rdma_read_channel = true;
  auto session = Session(args);
  wire::ConnectBindArgs bind;
  bind.session_id = negotiated_.session_id;
  bind.channel_use = wire::ChannelUse::kRdmaRead;
  auto reserved = Connection();
  const std::shared_ptr<dat::Provider> of_server = provider_;
  provider_ = dat::NewIwarpProvider({.reserved_port = false});
  EXPECT_EQ(Connection()->Call(bind).name(), "DAFSERR_NOT_AUTHORIZED");
  EXPECT_EQ(reserved->Call(bind).name(), "DAFS_STATUS_OK");
}

// Clients that no export admits have a limit of their own. They use no session of admitted clients.
TEST_F(SessionTest, UnadmittedClientsUseNoSessionsOfAdmittedClients) {
  if (dat::testing::OverRdma()) GTEST_SKIP() << "needs a TCP provider without a reserved port";
  options_.max_sessions = 2;
  StartServer();
  const std::shared_ptr<dat::Provider> reserved = provider_;
  provider_ = dat::NewIwarpProvider({.reserved_port = false});
  std::vector<std::unique_ptr<RawClient>> strangers;
  for (uint32_t i = 0; i < SessionTable::kMaxStrangersPerAddress; ++i) {
    strangers.push_back(Connection());
    wire::ClientConnectAuthArgs args = ConnectArgs("c1");  // the name of an admitted client
    args.auth_req.auth_type = AuthType::kDefault;
    args.max_requests = 1000;
    auto reply = strangers.back()->Call(args);
    ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(reply.res.max_requests, 1u);
  }
  EXPECT_EQ(server_->clients(), 0u);
  EXPECT_TRUE(IsRefused());  // one more than the limit
  provider_ = reserved;
  auto one = Session("c1");
  auto two = Session("c2");
  EXPECT_TRUE(IsRefused());
}

// Shows DAFS-3.1.1.3-06 also for the last request of the old instance, which the server executes
// after it has replaced the old instance.
TEST_F(SessionTest, LateOpenOfAReplacedInstanceIsReleasedToo) {
  options_.pool_threads = 1;
  options_.lease_time = absl::Milliseconds(400);
  StartServer();
  WriteFile("a/f", "x");
  WriteFile("a/held", "x");
  const auto truncating = [](RawClient& client, const std::string& name) {
    wire::OpenArgs open = OpenArgs(LookUp(client, {"a"}), name, true);
    open.createattrs.set(wire::kFattrObjectSize);
    open.createattrs.object_size = 0;
    return open;
  };
  auto waiter = Session("waiter");
  ActAsRoot(*waiter);
  // The only thread of the pool waits to truncate a file until its lease (fcntl(2)) is released.
  signal(SIGIO, SIG_IGN);
  const int held = open(Path("a/held").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(fcntl(held, F_SETLEASE, F_RDLCK), 0);
  auto blocker = Session("blocker");
  ActAsRoot(*blocker);
  wire::OpenArgs blocking = truncating(*blocker, "held");
  blocking.share_access = wire::kShareWrite;
  ASSERT_TRUE(blocker->SendRequest(blocking));
  const absl::Time deadline = Loop::Now() + kPatience;
  while (server_->open_count() == 0 && Loop::Now() < deadline) sched_yield();

  auto old = Session(ConnectArgs("boot", 1));
  ActAsRoot(*old);
  wire::OpenArgs late = truncating(*old, "f");
  late.share_deny = wire::kShareBoth;
  ASSERT_TRUE(old->SendRequest(late, 1));
  ASSERT_EQ(old->Call(wire::NullArgs()).name(),
            "DAFS_STATUS_OK");  // so the other request has begun
  old->Vanish();
  auto fresh = Session(ConnectArgs("boot", 2));
  Session("mark")->Vanish();
  // The client that vanished after the old instance is forgotten: a scan of the table has run
  // since.
  while (server_->clients() > 3 && Loop::Now() < deadline) sched_yield();
  ASSERT_EQ(server_->clients(), 3u);

  fcntl(held, F_SETLEASE, F_UNLCK);
  close(held);
  EXPECT_EQ(blocker->ReceiveReply<wire::OpenArgs>().name(), "DAFS_STATUS_OK");
  const wire::OpenArgs wanted = truncating(*waiter, "f");
  std::string status;
  do {  // the pool executes the late one first
    status = waiter->Call(wanted).name();
  } while (status == "DAFSERR_DENIED" && Loop::Now() < deadline);
  EXPECT_EQ(status, "DAFS_STATUS_OK");
  EXPECT_EQ(server_->open_count(), 2u);
}

// Shows DAFS-6.2.8-01, DAFS-6.2.8-02, DAFS-6.2.8-08, DAFS-6.2.8-10 (NOTSUPP), DAFS-6.2.9-01,
// DAFS-3.1.1-02, DAFS-6.2.1-04, DAFS-6.2.2-03, DAFS-6.2.2-11 (trusted), DAFS-3.1.2.2-02.
TEST_F(SessionTest, CredentialsBelongToTheClientOnAllItsSessions) {
  StartServer();
  wire::ClientConnectAuthArgs args = ConnectArgs("creds");
  args.max_credentials = 3;
  auto one = Session(args);
  EXPECT_EQ(negotiated_.max_credentials, 3u);
  args.max_credentials = 500;
  auto two = Session(args);
  EXPECT_EQ(negotiated_.max_credentials, 3u);

  auto first = one->Call(Cred(1000));
  ASSERT_EQ(first.name(), "DAFS_STATUS_OK");
  EXPECT_FALSE(first.res.cred_handle.is_zero());
  EXPECT_EQ(two->Call(Cred(1001)).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(one->Call(Cred(1002)).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(two->Call(Cred(1003)).name(), "DAFSERR_RESOURCE");
  two->cred_handle = first.res.cred_handle;
  EXPECT_EQ(two->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  wire::ReleaseCredArgs release;
  release.cred_handle = first.res.cred_handle;
  EXPECT_EQ(one->Call(release).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(two->Call(wire::NullArgs()).name(), "DAFSERR_NO_CREDS");
  EXPECT_EQ(one->Call(release).name(), "DAFSERR_NO_CREDS");
  EXPECT_EQ(one->Call(Cred(1003)).name(), "DAFS_STATUS_OK");

  // Another client does not know the handle.
  auto stranger = Session("stranger");
  stranger->cred_handle = first.res.cred_handle;
  EXPECT_EQ(stranger->Call(wire::NullArgs()).name(), "DAFSERR_NO_CREDS");
  wire::RegisterCredArgs gss;
  gss.cred_type = wire::CredType::kGss;
  gss.name = "x";
  stranger->cred_handle = {};
  EXPECT_EQ(stranger->Call(gss).name(), "DAFSERR_NOTSUPP");
  wire::RegisterCredArgs by_name;
  by_name.cred_type = wire::CredType::kName;
  by_name.name = "root";
  EXPECT_EQ(stranger->Call(by_name).name(), "DAFS_STATUS_OK");
  wire::RegisterCredArgs by_default;
  by_default.cred_type = wire::CredType::kDefault;
  EXPECT_EQ(stranger->Call(by_default).name(), "DAFS_STATUS_OK");
  by_name.name = "no such user here";
  EXPECT_EQ(stranger->Call(by_name).name(), "DAFSERR_NOT_AUTHORIZED");
  EXPECT_EQ(stranger->Call(Cred(-1)).name(), "DAFSERR_INVAL");
}

// Shows DAFS-3.1.1.1.2-01, DAFS-3.1.1.1.2-03 (the server), DAFS-3.1.1.1.2-05, DAFS-6.2.2-11 (not
// trusted), DAFS-6.2.8-10 (NOT_AUTHORIZED), DAFS-6.2.9-02.
TEST_F(SessionTest, UntrustedClientIsAnonymousAndCannotRegisterCredentials) {
  StartServer();
  wire::GetattrInlineArgs look;
  look.filehandle = Root(*Session());
  options_.exports[0].clients = {*Cidr::Parse("192.0.2.0/24")};
  StartServer();
  auto client = Connection();
  EXPECT_EQ(client->Call(ConnectArgs("u")).name(), "DAFSERR_NOT_AUTHENTICATED");
  wire::ClientConnectAuthArgs args = ConnectArgs("u");
  args.auth_req.auth_type = AuthType::kDefault;
  auto reply = client->Call(args);
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_FALSE(reply.res.trusted);
  EXPECT_EQ(client->Call(wire::SecinfoArgs()).res.secinfo.size(), 1u);
  EXPECT_EQ(client->Call(Cred(0)).name(), "DAFSERR_NOT_AUTHORIZED");
  EXPECT_EQ(client->Call(wire::ReleaseCredArgs()).name(), "DAFSERR_NOT_AUTHORIZED");
  // It acts as the user of the session. Any other credential is unknown.
  EXPECT_EQ(client->Call(wire::GetRootHandleArgs()).name(), "DAFSERR_ACCES");
  EXPECT_EQ(client->Call(look).name(), "DAFS_STATUS_OK");
  client->cred_handle.bytes[0] = 1;
  EXPECT_EQ(client->Call(look).name(), "DAFSERR_NO_CREDS");
}

// Shows DAFS-6.2.5-04, DAFS-6.2.5-06; R81.
TEST_F(SessionTest, SessionWithoutOptionalChannelsCannotBindOne) {
  StartServer();
  auto session = Session("b");
  auto channel = Connection();
  wire::ConnectBindArgs bind;
  bind.session_id = wire::OpaqueFromUint64<wire::SessionId>(1);
  EXPECT_EQ(channel->Call(bind).name(), "DAFSERR_UNKNOWN_SESSION");
  bind.session_id = negotiated_.session_id;
  EXPECT_EQ(channel->Call(bind).name(), "DAFSERR_ILLEGAL_STATE");
  bind.channel_use = wire::ChannelUse(3);
  EXPECT_EQ(channel->Call(bind).name(), "DAFSERR_INVAL");
  channel->order = wire::ByteOrder::kLittle;
  auto other = Connection();
  other->order = wire::ByteOrder::kBig;
  bind.channel_use = wire::ChannelUse::kRdmaRead;
  EXPECT_EQ(other->Call(bind).name(), "closed");
  EXPECT_EQ(session->Call(bind).name(), "DAFSERR_ILLEGAL_STATE");
}

// WIRE 9.4 DISCONNECT.
TEST_F(SessionTest, DisconnectEndsTheSessionAndFreesItsMemory) {
  StartServer();
  auto client = Session("d");
  EXPECT_GT(server_->message_bytes(), 0u);
  EXPECT_EQ(client->Call(wire::DisconnectArgs()).name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(client->AwaitClosed());
  const absl::Time deadline = Loop::Now() + kPatience;
  while (server_->connections() > 0 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(server_->connections(), 0u);
  EXPECT_EQ(server_->message_bytes(), 0u);
}

// A lease that expires ends the opens. Any request renews it. Shows DAFS-4.4.1.5-01.
TEST_F(SessionTest, SilentClientLosesItsOpens) {
  options_.lease_time = absl::Milliseconds(400);
  StartServer();
  WriteFile("a/f", "x");
  auto holder = Session("holder");
  ActAsRoot(*holder);
  wire::OpenArgs open = OpenArgs(LookUp(*holder, {"a"}), "f", false);
  open.share_deny = 3;
  ASSERT_EQ(holder->Call(open).name(), "DAFS_STATUS_OK");
  auto waiter = Session("waiter");
  ActAsRoot(*waiter);
  const absl::Time kept_until = Loop::Now() + absl::Milliseconds(1200);
  while (Loop::Now() < kept_until) {
    ASSERT_EQ(holder->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
    ASSERT_EQ(server_->open_count(), 1u);
  }
  std::string status;
  const absl::Time deadline = Loop::Now() + kPatience;
  do {
    status = waiter->Call(open).name();
  } while (status == "DAFSERR_DENIED" && Loop::Now() < deadline);
  EXPECT_EQ(status, "DAFS_STATUS_OK");
}

// WIRE 9.4 CLIENT_AUTH, CLIENT_CONNECT_AUTH, SERVER_AUTH. Shows DAFS-3.1.1.1.2-06, DAFS-6.2.2-12,
// DAFS-6.2.2-13, DAFS-6.2.3-01, DAFS-6.2.3-03, DAFS-6.2.4-01
TEST_F(SessionTest, EachAuthenticationMethodReturnsItsStatus) {
  options_.exports[0].clients = {*Cidr::Parse("192.0.2.0/24")};
  StartServer();
  struct Case {
    AuthType method;
    const char* auth;          // CLIENT_AUTH
    const char* connect_auth;  // CLIENT_CONNECT_AUTH (R58)
    const char* server_auth;   // SERVER_AUTH
  };
  const Case cases[] = {
      {AuthType::kNone, "DAFSERR_NOT_AUTHORIZED", "DAFSERR_NOT_AUTHENTICATED", "DAFS_STATUS_OK"},
      {AuthType::kText, "DAFSERR_NOTSUPP", "DAFSERR_NOTSUPP", "DAFSERR_NOTSUPP"},
      {AuthType::kGss, "DAFSERR_NOTSUPP", "DAFSERR_NOTSUPP", "DAFSERR_NOTSUPP"},
      {AuthType::kDefault, "DAFS_STATUS_OK", "DAFS_STATUS_OK", "DAFS_STATUS_OK"},
  };
  auto with = [](AuthType method) {
    wire::AuthReq request;
    request.auth_type = method;
    request.auth_id = "a";  // for TEXT, which must not be empty
    request.procedure = wire::GssProcedure::kInit;
    request.service = wire::GssService::kAuth;
    return request;
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.auth);
    auto client = Connection();
    wire::ClientConnectAuthArgs both = ConnectArgs("m");
    both.auth_req = with(c.method);
    EXPECT_EQ(client->Call(both).name(), c.connect_auth);
    if (c.method == AuthType::kDefault) continue;
    ASSERT_EQ(client->Call(Plain("m")).name(), "DAFS_STATUS_OK");
    wire::ClientAuthArgs auth;
    auth.auth_req = with(c.method);
    EXPECT_EQ(client->Call(auth).name(), c.auth);
    wire::ServerAuthArgs server_auth;
    server_auth.auth_type = c.method;
    EXPECT_EQ(client->Call(server_auth).name(), "DAFSERR_NOT_AUTHENTICATED");
    EXPECT_EQ(client->Call(Auth(AuthType::kDefault)).name(), "DAFS_STATUS_OK");
    EXPECT_EQ(client->Call(server_auth).name(), c.server_auth);
    // A client that has authenticated by one method cannot switch to another.
    EXPECT_EQ(client->Call(auth).name(), c.auth);
    EXPECT_EQ(client->Call(Auth(AuthType::kDefault)).name(), "DAFS_STATUS_OK");
  }
}

// Shows DAFS-6.1.2-08: each request of a session acts for the user of its own credential.
TEST_F(SessionTest, EachRequestActsForTheUserOfItsCredential) {
  StartServer();
  WriteFile("a/f", "secret");
  ASSERT_EQ(chown(Path("a/f").c_str(), 1000, 1000), 0);
  ASSERT_EQ(chmod(Path("a/f").c_str(), 0600), 0);
  auto client = Session();
  ActAsRoot(*client);
  wire::ReadInlineArgs read;
  read.filehandle = LookUp(*client, {"a", "f"});
  read.byte_count = 6;
  const wire::CredHandle root = client->cred_handle;
  client->cred_handle = {};
  const wire::CredHandle owner = client->Call(Cred(1000)).res.cred_handle;
  const wire::CredHandle other = client->Call(Cred(1001)).res.cred_handle;
  const std::pair<wire::CredHandle, const char*> turns[] = {{owner, "DAFS_STATUS_OK"},
                                                            {other, "DAFSERR_ACCES"},
                                                            {root, "DAFS_STATUS_OK"},
                                                            {{}, "DAFSERR_ACCES"},
                                                            {owner, "DAFS_STATUS_OK"}};
  for (const auto& [handle, status] : turns) {
    client->cred_handle = handle;
    EXPECT_EQ(client->Call(read).name(), status);
  }
}

// Shows DAFS-6.2.2-05: it registers no credential, and acts as the user that is the server's
// default.
TEST_F(SessionTest, DefaultMethodUsesTheCredentialsOfTheServer) {
  StartServer();
  wire::ClientConnectAuthArgs args = ConnectArgs("default");
  args.auth_req.auth_type = AuthType::kDefault;
  auto client = Session(args);
  wire::CreateArgs create;
  create.filehandle = LookUp(*client, {"a"});
  create.obj_type = wire::ObjectType::kDir;
  create.component = "d";
  ASSERT_EQ(client->Call(create).name(), "DAFS_STATUS_OK");
  struct stat made = {};
  ASSERT_EQ(stat(Path("a/d").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, kAnonymousId);
  EXPECT_EQ(made.st_gid, kAnonymousId);
}

// Shows FAST03-3.3-01: each client has a session and a user of its own.
TEST_F(SessionTest, ClientsOfOneHostActForTheirOwnUsers) {
  StartServer();
  WriteFile("a/f", "secret");
  ASSERT_EQ(chown(Path("a/f").c_str(), 1000, 1000), 0);
  ASSERT_EQ(chmod(Path("a/f").c_str(), 0600), 0);
  auto owner = Session("one");
  const wire::SessionId first = negotiated_.session_id;
  auto other = Session("two");
  EXPECT_NE(negotiated_.session_id, first);
  owner->cred_handle = owner->Call(Cred(1000)).res.cred_handle;
  other->cred_handle = other->Call(Cred(1001)).res.cred_handle;
  wire::ReadInlineArgs read;
  read.filehandle = LookUp(*owner, {"a", "f"});
  read.byte_count = 6;
  EXPECT_EQ(owner->Call(read).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(other->Call(read).name(), "DAFSERR_ACCES");
  other->Vanish();
  EXPECT_EQ(owner->Call(read).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-2.4.3-05
TEST_F(SessionTest, StateIdIsValidOnEverySessionOfItsClient) {
  StartServer();
  WriteFile("a/f", "x");
  auto one = Session("c");
  auto two = Session("c");
  auto stranger = Session("s");
  for (RawClient* client : {one.get(), two.get(), stranger.get()}) ActAsRoot(*client);
  auto opened = one->Call(OpenArgs(LookUp(*one, {"a"}), "f", false));
  ASSERT_EQ(opened.name(), "DAFS_STATUS_OK");
  wire::ReadInlineArgs read;
  read.filehandle = opened.res.filehandle;
  read.state_id = opened.res.state_id;
  read.byte_count = 1;
  EXPECT_EQ(two->Call(read).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(stranger->Call(read).name(), "DAFSERR_BAD_STATEID");
  one.reset();
  EXPECT_EQ(two->Call(read).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-2.4.3-04: session ids are random 64-bit numbers. No two servers, and no two starts of
// one server, use the same id.
TEST_F(SessionTest, SessionIdsAreUnique) {
  std::vector<wire::SessionId> ids;
  for (int start = 0; start < 3; ++start) {
    StartServer();
    for (int i = 0; i < 3; ++i) {
      auto client = Session();
      ids.push_back(negotiated_.session_id);
      const uint64_t number = wire::OpaqueToUint64(ids.back());
      EXPECT_GT(std::min<int>(std::popcount(number), std::popcount(~number)), 8) << number;
    }
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(ids[i], ids[j]);
  }
}

}  // namespace
}  // namespace dafs::server
