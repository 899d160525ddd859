// A session against a server under the control of the test: negotiation, slots, chains, wrong
// replies, and the end.
#include "client/session/session.h"

#include <set>

#include "tests/client/scripted_fixture.h"
#include "tests/wire/auth/fake_gss.h"
#include "wire/codec/checksum.h"

namespace dafs::client::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using wire::DafsStatus;
using wire::Proc;

// A chain LOOKUP+GETATTR, and its result.
struct Walk {
  Call<wire::LookupArgs> lookup;
  Call<wire::GetattrInlineArgs> getattr;
  int resumed = 0;
  absl::Status status;

  explicit Walk(std::string name) {
    lookup.args.path = {std::move(name)};
    getattr.args.attr_request_bitmap = wire::kFattrFileId;
  }
};

Task<void> RunWalk(Session& session, Walk* walk, absl::Time deadline) {
  walk->getattr.chf_fh = true;
  CallBase* const chain[] = {&walk->lookup, &walk->getattr};
  Task<absl::Status> task = session.Run(wire::CredHandle(), chain, deadline);
  walk->status = co_await task;
  ++walk->resumed;
}

Task<void> RunNull(Session& session, int* done, absl::Status* status) {
  Call<wire::NullArgs> null;
  CallBase* const chain[] = {&null};
  Task<absl::Status> task = session.Run(wire::CredHandle(), chain, absl::InfiniteFuture());
  absl::Status result = co_await task;
  if (status != nullptr) *status = result;
  ++*done;
}

class SessionTest : public ScriptedTest {
 protected:
  std::vector<std::unique_ptr<Walk>> StartWalks(int count,
                                                absl::Time deadline = absl::InfiniteFuture()) {
    std::vector<std::unique_ptr<Walk>> walks;
    for (int i = 0; i < count; ++i) {
      walks.push_back(std::make_unique<Walk>(std::string(1, static_cast<char>('A' + i % 26))));
      Start(RunWalk(*session_, walks.back().get(), deadline));
    }
    return walks;
  }
  // Answers CLIENT_CONNECT_AUTH. Grants a Back-control Channel, and an RDMA-read Channel if
  // `rdma_read` is true.
  void GrantChannels(ScriptedConnection& c, const Request& request, bool rdma_read) {
    const auto args = request.Decode<wire::ClientConnectAuthArgs>();
    wire::ClientConnectAuthRes res;
    res.session_id = wire::OpaqueFromUint64<wire::SessionId>(9);
    res.client_id = wire::OpaqueFromUint64<wire::ClientId>(7);
    res.max_request_size = args.max_request_size;
    res.max_response_size = args.max_response_size;
    res.max_requests = 16;
    res.max_credentials = 8;
    res.trusted = true;
    res.use_rdma_read_channel = rdma_read;
    res.use_back_control_channel = true;
    c.session_id = 9;
    c.connected_session = true;
    c.Answer(request, res);
  }
  // Each walk was resumed exactly once, with this code.
  void ExpectAllEnded(const std::vector<std::unique_ptr<Walk>>& walks, absl::StatusCode code) {
    for (const auto& walk : walks) {
      EXPECT_EQ(walk->resumed, 1);
      EXPECT_EQ(walk->status.code(), code) << walk->status;
    }
  }
  void ExpectRightAnswers(const std::vector<std::unique_ptr<Walk>>& walks) {
    for (const auto& walk : walks) {
      ASSERT_TRUE(walk->getattr.ok()) << walk->status;
      EXPECT_EQ(walk->getattr.res.obj_attributes.file_id,
                static_cast<uint64_t>(walk->lookup.args.path[0][0]));
    }
  }
};

// ---- Negotiation -----------------------------------------------------------------------------

// Shows DAFS-3.1.1.1-01, DAFS-3.1.2.3.2-02, DAFS-3.1.2.3.2-04 (the client's part): the scripted
// server has one receive until the client has connected, and records a second request.
TEST_F(SessionTest, ConnectsNegotiatesAndAuthenticates) {
  server_.max_requests = server_.target_nreq = 5;
  ASSERT_OK(MakeSession());
  EXPECT_TRUE(session_->alive());
  ASSERT_EQ(server_.log.size(), 2u);
  EXPECT_EQ(server_.log[0].proc, Proc::kClientConnectAuth);
  EXPECT_EQ(server_.log[1].proc, Proc::kExtensions);
  EXPECT_EQ(session_->negotiated().max_requests, 5u);
  EXPECT_EQ(session_->nreq(), 5u);
  EXPECT_TRUE(session_->negotiated().trusted);
  // WIRE 11.1: magic, two differentiators, channel type operation.
  const std::vector<std::byte>& data = server_.only().private_data;
  ASSERT_EQ(data.size(), 16u);
  EXPECT_EQ(data[0], std::byte{0x53});
  EXPECT_EQ(data[3], std::byte{0x44});
  EXPECT_EQ(data[12], std::byte{1});
}

TEST_F(SessionTest, AsksWhichServerItIs) {
  server_.extensions = wire::kExtensionLockWaits;
  ASSERT_OK(MakeSession());
  EXPECT_EQ(server_.log.back().proc, Proc::kServerIdentity);
  EXPECT_FALSE(session_->negotiated().identity.has_value()) << "NOTSUPP: an older server";
  wire::ServerIdentityRes identity;
  identity.instance = 7;
  identity.cluster_id = "a\nb";
  server_.identity = identity;
  session_.reset();
  ASSERT_OK(MakeSession());
  EXPECT_FALSE(session_->negotiated().identity.has_value()) << "an id of zeros is none";
  identity.server_id.bytes[0] = 1;
  server_.identity = identity;
  session_.reset();
  ASSERT_OK(MakeSession());
  EXPECT_EQ(session_->negotiated().identity, identity);
  SessionReport report;
  session_->Fill(report);
  EXPECT_EQ(report.server_id, "01" + std::string(30, '0'));
  EXPECT_EQ(report.cluster_id, "a\\nb");
}

TEST_F(SessionTest, UsesSeparateRequestsIfConnectAuthIsUnsupported) {
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure == Proc::kClientConnectAuth) {
      c.Refuse(request, DafsStatus::kNotSupp);
      return true;
    }
    if (request.header.procedure == Proc::kSecinfo) {
      wire::SecinfoRes res;
      res.secinfo.resize(2);
      res.secinfo[0].auth_type = wire::AuthType::kGss;
      res.secinfo[0].oid = "x";
      res.secinfo[1].auth_type = wire::AuthType::kDefault;
      c.Answer(request, res);
      return true;
    }
    return false;
  };
  ASSERT_OK(MakeSession());
  EXPECT_EQ(session_->negotiated().auth, wire::AuthType::kDefault);
}

// Shows DAFS-3.1.1.3-04: the principal is the method, and the host that stays the same.
TEST_F(SessionTest, NextInstanceAuthenticatesAsTheOneBefore) {
  for (const bool accepts_none : {true, false}) {
    wire::ClientConnectAuthArgs first;
    wire::AuthType used{};
    for (int instance = 0; instance < 2; ++instance) {
      session_.reset();
      wire::ClientConnectAuthArgs args;
      server_.script = [&](ScriptedConnection& c, const Request& request) {
        switch (request.header.procedure) {
          case Proc::kClientConnectAuth:
            args = request.Decode<wire::ClientConnectAuthArgs>();
            if (accepts_none) return false;
            c.Refuse(request, DafsStatus::kNotAuthenticated);
            return true;
          case Proc::kSecinfo: {
            wire::SecinfoRes res;
            res.secinfo.resize(1);
            res.secinfo[0].auth_type = wire::AuthType::kDefault;
            c.Answer(request, res);
            return true;
          }
          default:
            return false;
        }
      };
      ASSERT_OK(MakeSession());  // of a new Client
      if (instance == 0) {
        first = args;
        used = session_->negotiated().auth;
        continue;
      }
      EXPECT_EQ(args.client_id_string, first.client_id_string);
      EXPECT_NE(args.client_verifier, first.client_verifier);
      EXPECT_EQ(args.auth_req.auth_type, first.auth_req.auth_type);
      EXPECT_EQ(session_->negotiated().auth, used);
      EXPECT_EQ(used, accepts_none ? wire::AuthType::kNone : wire::AuthType::kDefault);
    }
  }
  session_.reset();
}

TEST_F(SessionTest, ReportsThatNoAuthenticationMethodMatches) {
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kClientConnectAuth) return false;
    c.Refuse(request, DafsStatus::kNotAuthenticated);
    return true;
  };
  absl::Status status = MakeSession();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_TRUE(session_->dead());
}

// Shows DAFS-3.1.1.1.1-04: the answer to CLIENT_AUTH proves the server.
TEST_F(SessionTest, AfterAGssExchangeTheClientSendsNoServerAuth) {
  options_.auth = Auth::kGss;
  options_.initiator =
      std::make_shared<auth::testing::FakeInitiator>(std::vector<std::string>{"host/a.test@R"});
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kClientAuth) return false;
    EXPECT_EQ(request.Decode<wire::ClientAuthArgs>().auth_req.token, "host/a.test@R");
    wire::ClientAuthRes res;
    res.auth_res.auth_type = wire::AuthType::kGss;
    res.auth_res.gss_token = "answer";
    res.trusted = true;
    c.Answer(request, res);
    c.connected_session = true;
    return true;
  };
  ASSERT_OK(MakeSession());
  auto walks = StartWalks(1);
  ASSERT_TRUE(Until([&] { return walks.back()->resumed > 0; }));
  ExpectRightAnswers(walks);
  EXPECT_EQ(server_.Count(Proc::kClientAuth), 1);
  EXPECT_EQ(server_.Count(Proc::kServerAuth), 0);
}

TEST_F(SessionTest, ReportsTheVersionOfTheServer) {
  server_.script = [](ScriptedConnection& c, const Request& request) {
    wire::ResponseHeader header = c.HeaderFor(request, DafsStatus::kIllegalProt);
    header.protocol_version = 1;
    std::vector<std::byte> bytes(40);
    wire::EncodeResponseHeaderOnly(header, request.order, bytes, false);
    c.Send(std::move(bytes));
    return true;
  };
  absl::Status status = MakeSession();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 1"));
}

// Shows DAFS-6.2.1-08.
TEST_F(SessionTest, RejectsInvalidNegotiatedValues) {
  server_.max_requests = 0;
  absl::Status status = MakeSession();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_requests 0"));
}

TEST_F(SessionTest, RefusedConnectionReturnsUnavailable) {
  server_.break_at = 17;  // Connect itself, after the receives are posted
  absl::Status status = MakeSession();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

// Shows DAFS-6.1.1.5-01, DAFS-6.1.1.5-02 (the client chooses), DAFS-6.1.2-02 (the client's magic).
TEST_F(SessionTest, UsesBigEndianThroughout) {
  options_.byte_order = wire::ByteOrder::kBig;
  ASSERT_OK(MakeSession());
  auto walks = StartWalks(3);
  ASSERT_TRUE(Until([&] { return walks.back()->resumed > 0; }));
  ExpectRightAnswers(walks);
  for (const auto& seen : server_.log) EXPECT_EQ(seen.order, wire::ByteOrder::kBig);
  EXPECT_EQ(server_.only().private_data[0], std::byte{0x44});
}

// ---- Optional channels -----------------------------------------------------------------------

// Shows DAFS-3.1.2.3.2-05, DAFS-3.1.2.3.2-06: after the authentication, and before the session is
// used. Shows DAFS-3.1.2.3.4-03, DAFS-3.1.2.3.4.1-01: the RDMA-read Channel exists if and only if
// the server grants it, with or without a wish of the client.
TEST_F(SessionTest, GrantedChannelsAreBoundBeforeTheSessionIsUsed) {
  for (const bool granted : {true, false}) {
    for (const bool wanted : {true, false}) {
      SCOPED_TRACE(::testing::Message() << granted << wanted);
      session_.reset();
      server_.log.clear();
      options_.rdma_read_channel = wanted;
      options_.back_control_channel = true;
      std::vector<wire::ChannelUse> bound;
      server_.script = [&](ScriptedConnection& c, const Request& request) {
        if (request.header.procedure == Proc::kConnectBind) {
          bound.push_back(request.Decode<wire::ConnectBindArgs>().channel_use);
        }
        if (request.header.procedure != Proc::kClientConnectAuth) return false;
        const auto args = request.Decode<wire::ClientConnectAuthArgs>();
        EXPECT_EQ(args.use_rdma_read_channel, wanted);
        GrantChannels(c, request, granted);
        return true;
      };
      ASSERT_OK(MakeSession());
      std::vector<wire::ChannelUse> uses;
      std::vector<Proc> procs = {Proc::kClientConnectAuth, Proc::kExtensions};
      if (granted) uses.push_back(wire::ChannelUse::kRdmaRead);
      uses.push_back(wire::ChannelUse::kBackControl);
      procs.insert(procs.end(), uses.size(), Proc::kConnectBind);
      EXPECT_EQ(bound, uses);
      std::vector<Proc> seen;
      for (const auto& each : server_.log) seen.push_back(each.proc);
      EXPECT_EQ(seen, procs);
      EXPECT_EQ(server_.connections.size(), 1 + uses.size());
    }
  }
  session_.reset();
}

// Returns the four bytes at `at` of the private data of `connection`.
std::string Field(const ScriptedConnection* connection, size_t at) {
  return {reinterpret_cast<const char*>(connection->private_data.data()) + at, 4};
}

// Shows DAFS-E.9-01, DAFS-E.9-02, DAFS-E.9-03. Shows DAFS-E.6-03: the session makes one protection
// domain, in which each of its connections and registrations is.
TEST_F(SessionTest, PrivateDataNamesTheClientTheSessionAndTheChannel) {
  options_.rdma_read_channel = true;
  options_.back_control_channel = true;
  pool_ = *BufferPool::Create(options_.buffers);
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kClientConnectAuth) return false;
    GrantChannels(c, request, true);
    return true;
  };
  std::string client_before;
  for (const bool big_endian : {false, true}) {
    SCOPED_TRACE(big_endian);
    options_.byte_order = big_endian ? wire::ByteOrder::kBig : wire::ByteOrder::kLittle;
    session_.reset();
    server_.domains_made = 0;
    ASSERT_OK(MakeSession());  // of a new Client
    EXPECT_EQ(server_.domains_made, 1);
    ASSERT_EQ(server_.connections.size(), 3u);
    const std::string client = Field(server_.connections[0], 4);
    const std::string session = Field(server_.connections[0], 8);
    EXPECT_NE(client, client_before);  // equal once in 2^32 runs
    const auto expect_channels = [&](const std::string& session_value) {
      const char types[] = {1, 4, 2};  // operation, RDMA-read, back-control
      for (size_t i = 0; i < 3; ++i) {
        const ScriptedConnection* channel = server_.connections[i];
        ASSERT_GE(channel->private_data.size(), 16u);
        EXPECT_EQ(Field(channel, 0), big_endian ? "DAFS" : "SFAD");
        EXPECT_EQ(Field(channel, 4), client);
        EXPECT_EQ(Field(channel, 8), session_value);
        std::string type(4, '\0');
        type[big_endian ? 3 : 0] = types[i];
        EXPECT_EQ(Field(channel, 12), type);
      }
    };
    expect_channels(session);
    // Another session of the same client.
    session_.reset();
    auto next =
        Session::Create(*client_, *loop_, server_, options_.addresses[0], pool_.get(), totals_);
    ASSERT_OK(next);
    session_ = *std::move(next);
    absl::Status established = Await(session_->Establish(Loop::Now() + absl::Seconds(10)));
    ASSERT_OK(established);
    ASSERT_EQ(server_.connections.size(), 3u);
    const std::string next_session = Field(server_.connections[0], 8);
    EXPECT_NE(next_session, session);
    expect_channels(next_session);
    client_before = client;
  }
  session_.reset();
}

// Shows DAFS-3.1.2.3.4-05 (the client's part), DAFS-3.2.6.3-02 (the client's part): after the
// exchange that binds it, the client posts neither requests nor receives there.
TEST_F(SessionTest, ReadChannelCarriesNoLaterMessageOfTheClient) {
  options_.rdma_read_channel = options_.back_control_channel = true;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kClientConnectAuth) return false;
    GrantChannels(c, request, true);
    return true;
  };
  ASSERT_OK(MakeSession());
  ASSERT_EQ(server_.connections.size(), 3u);
  const ScriptedConnection& operations = *server_.connections[0];
  const ScriptedConnection& channel = *server_.connections[1];
  EXPECT_EQ(Field(&channel, 12), std::string("\4\0\0\0", 4));
  const size_t before = operations.messages;
  for (const uint16_t target : {uint16_t{4}, uint16_t{16}}) {
    server_.target_nreq = target;
    auto first = StartWalks(1);
    ASSERT_TRUE(Until([&] { return session_->nreq() == target; }));
    auto walks = StartWalks(12);
    ASSERT_TRUE(Until([&] { return walks.back()->resumed == 1; }));
    ExpectRightAnswers(walks);
  }
  EXPECT_GE(operations.messages, before + 48);
  EXPECT_EQ(channel.messages, 1u);  // CONNECT_BIND
  EXPECT_EQ(channel.receives_posted, 1u);
}

// Shows DAFS-3.1.2.2-01 (the client's part), DAFS-3.2.6.4.1-01 (the client's part): the client
// negotiates once for each connection, then keeps to what was granted, whatever Nreq is.
TEST_F(SessionTest, MessageSizesStayFixed) {
  options_.rdma_read_channel = options_.back_control_channel = true;
  options_.max_request_size = 1024;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kClientConnectAuth) return false;
    GrantChannels(c, request, true);
    return true;
  };
  ASSERT_OK(MakeSession());
  const std::set<uint32_t> sizes = server_.connections[0]->receive_sizes;
  for (const uint16_t target : {uint16_t{4}, uint16_t{16}}) {
    server_.target_nreq = target;
    auto first = StartWalks(1);
    ASSERT_TRUE(Until([&] { return session_->nreq() == target; }));
    auto walks = StartWalks(12);
    ASSERT_TRUE(Until([&] { return walks.back()->resumed == 1; }));
    ExpectRightAnswers(walks);
    Call<wire::CreateArgs> create;
    create.args.component = "link";
    create.args.obj_type = wire::ObjectType::kLnk;
    create.args.linkdata = std::string(2000, 'x');
    CallBase* const chain[] = {&create};
    const absl::Status status = Await(session_->Run({}, chain, absl::InfiniteFuture()));
    EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kTooSmall) << status;
  }
  EXPECT_EQ(server_.connections[0]->receive_sizes, sizes);
  EXPECT_EQ(session_->negotiated().max_requests, 16u);
  EXPECT_EQ(server_.Count(Proc::kClientConnectAuth), 1);
  EXPECT_EQ(server_.Count(Proc::kConnectBind), 2);
}

// Shows DAFS-E.3-04 (the client's part). An end by the server is abrupt at any time (E.5.4).
TEST_F(SessionTest, ConnectionEndsAfterTheSession) {
  ASSERT_OK(MakeSession());
  std::optional<Request> held;
  server_.script = [&](ScriptedConnection&, const Request& request) {
    if (request.header.procedure != Proc::kDisconnect) return false;
    held = request;
    return true;
  };
  bool ended = false;
  const auto disconnect = [](Session& session, bool* done) -> Task<void> {
    Task<void> task = session.Disconnect(Loop::Now() + absl::Seconds(30));
    co_await task;
    *done = true;
  };
  Start(disconnect(*session_, &ended));
  ASSERT_TRUE(Until([&] { return held.has_value(); }));
  Settle();
  EXPECT_FALSE(server_.only().closed);
  EXPECT_FALSE(ended);
  server_.only().Answer(*held, wire::DisconnectRes());
  ASSERT_TRUE(Until([&] { return ended; }));
  EXPECT_TRUE(server_.connections.empty() || server_.only().closed);
}

// ---- Calls that can be delayed ---------------------------------------------------------------

Task<void> RunClose(Session& session, Call<wire::CloseArgs>* close, bool* done) {
  close->can_wait = true;
  CallBase* const chain[] = {close};
  Task<absl::Status> task = session.Run(wire::CredHandle(), chain, absl::InfiniteFuture());
  absl::Status status = co_await task;
  EXPECT_OK(status);
  *done = true;
}

TEST_F(SessionTest, DelayableCallIsSentBeforeTheNextCall) {
  ASSERT_OK(MakeSession());
  server_.log.clear();
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kClose) return false;
    c.Answer(request, wire::CloseRes());
    return true;
  };
  Call<wire::CloseArgs> close;
  bool done = false;
  Start(RunClose(*session_, &close, &done));
  EXPECT_TRUE(server_.log.empty());
  EXPECT_FALSE(close.sent);
  auto walks = StartWalks(1);
  ASSERT_TRUE(Until([&] { return done && walks[0]->resumed > 0; }));
  ExpectRightAnswers(walks);
  ASSERT_EQ(server_.log.size(), 3u);
  EXPECT_EQ(server_.log[0].proc, Proc::kClose);
}

TEST_F(SessionTest, DelayableCallIsSentAloneAfterAShortTime) {
  ASSERT_OK(MakeSession());
  server_.script = [](ScriptedConnection& c, const Request& request) {
    if (request.header.procedure != Proc::kClose) return false;
    c.Answer(request, wire::CloseRes());
    return true;
  };
  Call<wire::CloseArgs> close;
  bool done = false;
  Start(RunClose(*session_, &close, &done));
  EXPECT_TRUE(Until([&] { return done; }));
}

// ---- Slots and chains ------------------------------------------------------------------------

// Shows DAFS-3.1.4-01, DAFS-3.2.6.2-01 (the client's part), DAFS-3.2.6.3-10, DAFS-6.1.2-06,
// DAFS-4.3.3-02, DAFS-4.3.2-01, DAFS-4.3.2-03, DAFS-5.2.1-06, FAST03-3-01, DAFS-3.2.3.1-02: the
// scripted server records each violation.
TEST_F(SessionTest, ChainsStayTogetherWhenManyCoroutinesSendThem) {
  server_.max_requests = server_.target_nreq = 5;
  ASSERT_OK(MakeSession());
  server_.hold = true;
  auto walks = StartWalks(60);
  int nulls = 0;
  for (int i = 0; i < 20; ++i) Start(RunNull(*session_, &nulls, nullptr));
  for (int turn = 0; turn < 1000 && nulls < 20; ++turn) {
    Settle();
    ScriptedConnection& c = server_.only();
    // One reply each turn, so that slots become free one at a time.
    if (!c.held.empty()) {
      Request request = std::move(c.held.front());
      c.held.pop_front();
      server_.Serve(c, request);
    }
  }
  ASSERT_TRUE(Until([&] { return nulls == 20 && walks.back()->resumed == 1; }));
  ExpectAllEnded(walks, absl::StatusCode::kOk);
  ExpectRightAnswers(walks);
  EXPECT_LE(server_.most_outstanding, 5u);
  EXPECT_EQ(ReportOf(*session_).slots_taken, 0u);
}

// Shows DAFS-4.3.3-01: with one credit, the members are sent one at a time.
TEST_F(SessionTest, ChainWithOneCreditIsSentAsSingleRequests) {
  server_.max_requests = server_.target_nreq = 1;
  ASSERT_OK(MakeSession());
  auto walks = StartWalks(10);
  ASSERT_TRUE(Until([&] { return walks.back()->resumed == 1; }));
  ExpectAllEnded(walks, absl::StatusCode::kOk);
  ExpectRightAnswers(walks);
  for (const auto& seen : server_.log) EXPECT_EQ(seen.chain_flags, 0);
  EXPECT_EQ(server_.most_outstanding, 1u);
}

TEST_F(SessionTest, MemberAfterAFailureGetsChainBroken) {
  for (uint32_t credits : {1u, 8u}) {
    server_.max_requests = credits;
    server_.target_nreq = static_cast<uint16_t>(credits);
    server_.script = [](ScriptedConnection& c, const Request& request) {
      if (request.header.procedure == Proc::kLookup) {
        c.Refuse(request, DafsStatus::kNoEnt);
        return true;
      }
      if (request.header.procedure == Proc::kGetattrInline) {
        c.Refuse(request, DafsStatus::kChainBroken);
        return true;
      }
      return false;
    };
    session_.reset();
    ASSERT_OK(MakeSession());
    auto walks = StartWalks(1);
    ASSERT_TRUE(Until([&] { return walks[0]->resumed == 1; }));
    EXPECT_OK(walks[0]->status);
    EXPECT_EQ(walks[0]->lookup.status, DafsStatus::kNoEnt);
    EXPECT_EQ(walks[0]->getattr.status, DafsStatus::kChainBroken);
    EXPECT_FALSE(walks[0]->getattr.ok());
    session_.reset();
  }
}

// Shows DAFS-3.2.6.4.2-05, DAFS-3.2.6.4.2-07, DAFS-3.2.6.4.2-08, DAFS-3.2.6.4.2-09, DAFS-5.2.2-01,
// DAFS-6.5.1-03. Shows DAFS-5.2.2-02 (the client's part): the scripted server records a request on
// an expired stream as a violation.
TEST_F(SessionTest, NreqShrinksByNullRequestsAndGrowsAtOnce) {
  server_.max_requests = server_.target_nreq = 8;
  ASSERT_OK(MakeSession());
  EXPECT_EQ(session_->nreq(), 8u);
  server_.target_nreq = 1;
  auto walks = StartWalks(1);
  ASSERT_TRUE(Until([&] { return session_->nreq() == 1; }));
  EXPECT_EQ(server_.Count(Proc::kNull),
            5);  // two replies of the walk withdrew the other two credits
  Settle();
  EXPECT_EQ(server_.Count(Proc::kNull), 5);
  server_.target_nreq = 12;
  auto more = StartWalks(2);
  ASSERT_TRUE(Until([&] { return more.back()->resumed == 1; }));
  EXPECT_EQ(session_->nreq(), 12u);
  ExpectRightAnswers(more);
}

// Shows DAFS-3.2.6.4.2-01, DAFS-3.2.6.4.2-04, DAFS-3.2.6.2-03: replies to outstanding requests
// serve the waiting ones. The client sends no more before a reply grants it.
TEST_F(SessionTest, RequestsMoreCreditsWhenRequestsWait) {
  server_.max_requests = server_.target_nreq = 2;
  ASSERT_OK(MakeSession());
  auto walks = StartWalks(1);
  ASSERT_TRUE(Until([&] { return walks[0]->resumed == 1; }));
  for (const auto& seen : server_.log) EXPECT_EQ(seen.desired_nreq, 0);
  EXPECT_EQ(totals_[wire::Proc::kLookup].queued, 0u);
  walks = StartWalks(4);
  ASSERT_TRUE(Until([&] { return walks.back()->resumed == 1; }));
  EXPECT_GT(totals_[wire::Proc::kLookup].queued, 0u);
  EXPECT_GT(totals_[wire::Proc::kLookup].queue_time, absl::ZeroDuration());
  bool asked = false;
  for (const auto& seen : server_.log) asked |= seen.desired_nreq == 16;
  EXPECT_TRUE(asked);
}

// Shows DAFS-3.1.2.2-03, DAFS-3.2.6.2-02 (the client's part), DAFS-3.2.6.3-06.
TEST_F(SessionTest, TooLargeRequestIsNotSent) {
  options_.max_request_size = 1024;
  ASSERT_OK(MakeSession());
  Call<wire::CreateArgs> create;
  create.args.component = "link";
  create.args.obj_type = wire::ObjectType::kLnk;
  create.args.linkdata = std::string(2000, 'x');
  CallBase* const chain[] = {&create};
  absl::Status status = Await(session_->Run({}, chain, absl::InfiniteFuture()));
  EXPECT_EQ(wire::DafsFromStatus(status), DafsStatus::kTooSmall) << status;
  EXPECT_FALSE(create.sent);
  EXPECT_EQ(ReportOf(*session_).slots_taken, 0u);
}

// ---- Wrong replies ---------------------------------------------------------------------------

using Wrong = std::function<void(ScriptedServer&, ScriptedConnection&, const Request&)>;

class WrongAnswerTest : public SessionTest,
                        public ::testing::WithParamInterface<std::pair<const char*, Wrong>> {};

void SendHeader(ScriptedConnection& c, const Request& request,
                const std::function<void(wire::ResponseHeader&)>& change) {
  wire::ResponseHeader header = c.HeaderFor(request, DafsStatus::kNoEnt);
  change(header);
  std::vector<std::byte> bytes(40);
  wire::EncodeResponseHeaderOnly(header, request.order, bytes, false);
  c.Send(std::move(bytes));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongAnswerTest,
    ::testing::Values(
        std::pair<const char*, Wrong>{"UnknownAnalyzer",
                                      [](ScriptedServer&, ScriptedConnection& c, const Request& r) {
                                        SendHeader(c, r, [](wire::ResponseHeader& h) {
                                          h.analyzer.bytes[1] ^= 0x40;
                                        });
                                      }},
        std::pair<const char*, Wrong>{"OtherStream",
                                      [](ScriptedServer&, ScriptedConnection& c, const Request& r) {
                                        SendHeader(c, r, [](wire::ResponseHeader& h) {
                                          h.stream_id ^= 1;
                                        });
                                      }},
        std::pair<const char*, Wrong>{"OtherSequenceNumber",
                                      [](ScriptedServer&, ScriptedConnection& c, const Request& r) {
                                        SendHeader(c, r, [](wire::ResponseHeader& h) {
                                          h.seq_number ^= 1;
                                        });
                                      }},
        std::pair<const char*, Wrong>{"Twice",
                                      [](ScriptedServer&, ScriptedConnection& c, const Request& r) {
                                        SendHeader(c, r, [](wire::ResponseHeader&) {});
                                        SendHeader(c, r, [](wire::ResponseHeader&) {});
                                      }},
        std::pair<const char*, Wrong>{"TooShort",
                                      [](ScriptedServer&, ScriptedConnection& c, const Request&) {
                                        c.Send(std::vector<std::byte>(24));
                                      }},
        std::pair<const char*, Wrong>{"Garbage",
                                      [](ScriptedServer&, ScriptedConnection& c, const Request&) {
                                        c.Send(std::vector<std::byte>(48, std::byte{0xa5}));
                                      }},
        std::pair<const char*, Wrong>{"OkWithoutItsResult",
                                      [](ScriptedServer&, ScriptedConnection& c, const Request& r) {
                                        std::vector<std::byte> bytes(40);
                                        wire::EncodeResponseHeaderOnly(
                                            c.HeaderFor(r, DafsStatus::kOk), r.order, bytes, false);
                                        c.Send(std::move(bytes));
                                      }},
        std::pair<const char*, Wrong>{
            "ARequestInstead",
            [](ScriptedServer&, ScriptedConnection& c, const Request& r) { c.Send(r.message); }},
        std::pair<const char*, Wrong>{"ConnectionLost",
                                      [](ScriptedServer&, ScriptedConnection& c, const Request&) {
                                        c.Close(absl::UnavailableError("gone"));
                                      }}),
    [](const auto& info) { return info.param.first; });

// Each outstanding or waiting call is resumed once, and all slots are free afterwards. Shows
// DAFS-3.1.2.5-01 for a lost connection.
TEST_P(WrongAnswerTest, EndsTheSessionAndEveryCallOnIt) {
  server_.max_requests = server_.target_nreq = 8;
  ASSERT_OK(MakeSession());
  server_.hold = true;
  auto walks = StartWalks(12);
  Settle();
  bool lost = false;
  session_->OnLost([&] { lost = true; });
  Request request = std::move(server_.only().held.front());
  server_.only().held.pop_front();
  GetParam().second(server_, server_.only(), request);
  ASSERT_TRUE(Until([&] { return lost; }));
  EXPECT_TRUE(session_->dead());
  for (const auto& walk : walks) {
    EXPECT_EQ(walk->resumed, 1);
    EXPECT_TRUE(absl::IsUnavailable(walk->status)) << walk->status;
    EXPECT_EQ(walk->lookup.sent, walk->getattr.sent);
  }
  EXPECT_EQ(ReportOf(*session_).slots_taken, 0u);
  // Nothing is sent on a dead session.
  auto late = StartWalks(1);
  EXPECT_EQ(late[0]->resumed, 1);
  EXPECT_TRUE(absl::IsUnavailable(late[0]->status));
  EXPECT_FALSE(late[0]->lookup.sent);
}

TEST_F(SessionTest, KillResumesAllCallsBeforeItReturns) {
  server_.max_requests = server_.target_nreq = 8;
  ASSERT_OK(MakeSession());
  server_.hold = true;
  auto walks = StartWalks(12);
  Settle();
  session_->Kill(absl::CancelledError("enough"));
  ExpectAllEnded(walks, absl::StatusCode::kUnavailable);
}

// Shows DAFS-3.1.2.2-07, DAFS-3.2.5-03, DAFS-3.2.5-05: a response with a wrong checksum fails its
// request only.
TEST_F(SessionTest, DamagedReplyFailsItsRequestOnly) {
  options_.checksums = true;
  ASSERT_OK(MakeSession());
  bool damage = true;
  server_.script = [&](ScriptedConnection& c, const Request& request) {
    if (!std::exchange(damage, false)) return false;
    std::vector<std::byte> bytes(40);
    wire::EncodeResponseHeaderOnly(c.HeaderFor(request, DafsStatus::kNoEnt), request.order, bytes,
                                   true);
    bytes[29] ^= std::byte{1};  // in the status
    c.Send(std::move(bytes));
    return true;
  };
  int done = 0;
  absl::Status status;
  Start(RunNull(*session_, &done, &status));
  ASSERT_TRUE(Until([&] { return done == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("wrong checksum"));
  EXPECT_TRUE(session_->alive());
  auto walks = StartWalks(1);
  ASSERT_TRUE(Until([&] { return walks[0]->resumed == 1; }));
  ExpectRightAnswers(walks);
}

// ---- Time ------------------------------------------------------------------------------------

TEST_F(SessionTest, TimeoutNamesTheRequestAndKeepsTheSlot) {
  options_.soft = true;
  options_.timeout = absl::Milliseconds(40);
  ASSERT_OK(MakeSession());
  server_.hold = true;
  auto walks = StartWalks(1, Loop::Now() + absl::Milliseconds(40));
  ASSERT_TRUE(Until([&] { return walks[0]->resumed == 1; }));
  EXPECT_TRUE(absl::IsDeadlineExceeded(walks[0]->status));
  EXPECT_THAT(std::string(walks[0]->status.message()),
              AllOf(HasSubstr("LOOKUP+GETATTR_INLINE"), HasSubstr("127.0.0.1:20149")));
  EXPECT_EQ(ReportOf(*session_).slots_taken, 2u);
  walks.clear();  // the calls are destroyed before their replies arrive
  server_.ServeHeld(server_.only());
  ASSERT_TRUE(Until([&] { return ReportOf(*session_).slots_taken == 0; }));
  EXPECT_TRUE(session_->alive());
}

TEST_F(SessionTest, TimedOutWaiterLeavesSlotsToTheNextWaiter) {
  options_.soft = true;
  options_.timeout = absl::Milliseconds(40);
  server_.max_requests = server_.target_nreq = 2;
  ASSERT_OK(MakeSession());
  server_.hold = true;
  int nulls = 0;
  Start(RunNull(*session_, &nulls, nullptr));
  auto walks = StartWalks(1, Loop::Now() + absl::Milliseconds(40));  // needs both slots
  Start(RunNull(*session_, &nulls, nullptr));
  Settle();
  EXPECT_EQ(server_.Count(Proc::kNull), 1);
  ASSERT_TRUE(Until([&] { return walks[0]->resumed == 1; }));
  EXPECT_TRUE(absl::IsDeadlineExceeded(walks[0]->status)) << walks[0]->status;
  Settle();
  EXPECT_EQ(server_.Count(Proc::kNull), 2);
  server_.ServeHeld(server_.only());
  EXPECT_TRUE(Until([&] { return nulls == 2; }));
}

// A caller that gets a timeout on a live session may assume that the server has finished. On a
// dying session the call therefore ends only after the connection has ended.
TEST_F(SessionTest, OutstandingCallsEndWithTheirDyingSession) {
  options_.soft = true;
  options_.timeout = absl::Milliseconds(4);  // as many ticks as possible
  ASSERT_OK(MakeSession());
  server_.hold = true;
  const absl::Time deadline = Loop::Now() + absl::Milliseconds(30);
  auto walks = StartWalks(1, deadline);
  ASSERT_TRUE(Until([&] { return server_.Count(Proc::kLookup) == 1; }));
  ASSERT_EQ(walks[0]->resumed, 0);
  while (Loop::Now() <=
         deadline) {  // the loop does not run, so the timeout and GiveUp are due together
  }
  session_->GiveUp(absl::UnavailableError("enough"));
  ASSERT_TRUE(Until([&] { return walks[0]->resumed == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(walks[0]->status)) << walks[0]->status;
  EXPECT_TRUE(session_->dead());
}

TEST_F(SessionTest, AdvertisedBufferIsQuarantinedUntilReplyOrSessionEnd) {
  for (bool answer : {true, false}) {
    session_.reset();
    pool_ = *BufferPool::Create(options_.buffers);
    ASSERT_OK(MakeSession());
    server_.hold = true;
    BufferLease lease = pool_->TryAcquire(BufferUse::kReadTarget, 4096);
    Call<wire::ReadDirectArgs> read;
    read.advertised = &lease;
    read.args.byte_count = 16;
    read.args.read_data_buffers.push_back(pool_->Advertise(lease, lease.payload(), 16));
    CallBase* const chain[] = {&read};
    absl::Status status = Await(session_->Run({}, chain, Loop::Now() + absl::Milliseconds(1)));
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    lease.Release();
    EXPECT_EQ(pool_->counts().leased, 0u);
    EXPECT_EQ(pool_->counts().quarantined, 1u);
    if (answer) {
      server_.ServeHeld(server_.only());
      EXPECT_TRUE(Until([&] { return pool_->counts().quarantined == 0; }));
    } else {
      session_->Kill(absl::CancelledError("enough"));
      EXPECT_EQ(pool_->counts().quarantined, 0u);
    }
    session_.reset();
    pool_.reset();
    server_.hold = false;
  }
}

// Shows DAFS-3.2.2-01, DAFS-5.1-01, DAFS-5.1-02: outstanding requests are not sent again.
TEST_F(SessionTest, SilentServerIsProbedWithNullThenDisconnected) {
  options_.silence = absl::Milliseconds(120);
  ASSERT_OK(MakeSession());
  server_.hold = true;
  auto walks = StartWalks(1);
  ASSERT_TRUE(Until([&] { return walks[0]->resumed == 1; }));
  EXPECT_TRUE(absl::IsUnavailable(walks[0]->status)) << walks[0]->status;
  EXPECT_THAT(std::string(walks[0]->status.message()), HasSubstr("no answer from"));
  EXPECT_EQ(server_.Count(Proc::kNull), 1);
  EXPECT_EQ(server_.Count(Proc::kLookup), 1);
  EXPECT_TRUE(session_->dead());
}

}  // namespace
}  // namespace dafs::client::testing
