// The meaning of a client id, and what a session keeps from its connection to its end.
// Spec: 2.4.3, 3.2.6.4.1, 6.2.1, 6.2.6.
#include <vector>

#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

constexpr const char* kOk = "DAFS_STATUS_OK";

class ClientIdsTest : public ServerTest {
 protected:
  wire::ClientId IdOf(const std::string& name, uint64_t verifier) {
    sessions_.push_back(Session(ConnectArgs(name, verifier)));
    return negotiated_.client_id;
  }
  void TearDown() override {
    sessions_.clear();
    ServerTest::TearDown();
  }
  static wire::ClientConnectArgs Plain(const std::string& name) {
    wire::ClientConnectArgs args;
    args.client_id_string = name;
    return args;
  }
  std::unique_ptr<RawClient> User(const std::string& name) {
    auto client = Session(name);
    ActAsRoot(*client);
    return client;
  }
  static Reply<wire::LockRes> Lock(RawClient& client, const wire::OpenRes& open) {
    wire::LockArgs args;
    args.filehandle = open.filehandle;
    args.state_id = open.state_id;
    args.length = 10;
    args.lock_type = wire::LockType::kWrite;
    return client.Call(args);
  }

  std::vector<std::unique_ptr<RawClient>> sessions_;
};

// Shows DAFS-2.4.3-03: one owner string of two clients is two lock owners, and of two sessions of
// one client it is one.
TEST_F(ClientIdsTest, IdStandsForNameAndVerifierAndDistinguishesLockOwners) {
  StartServer();
  const wire::ClientId id = IdOf("one", 1);
  EXPECT_EQ(IdOf("one", 1), id);
  EXPECT_NE(IdOf("two", 1), id);
  EXPECT_NE(IdOf("one", 2), id);

  WriteFile("a/f", "x");
  auto first = User("first");
  const wire::ClientId id_of_first = negotiated_.client_id;
  auto again = User("first");
  auto second = User("second");
  wire::OpenArgs open = OpenArgs(LookUp(*first, {"a"}), "f", false);
  open.owner = "owner";
  const wire::OpenRes of_first = first->Call(open).res;
  const wire::OpenRes of_again = again->Call(open).res;
  const wire::OpenRes of_second = second->Call(open).res;
  ASSERT_EQ(Lock(*first, of_first).name(), kOk);
  EXPECT_EQ(Lock(*again, of_again).name(), kOk);
  auto denied = Lock(*second, of_second);
  ASSERT_EQ(denied.name(), "DAFSERR_DENIED");
  EXPECT_EQ(denied.res.owner_clientid, id_of_first);
  EXPECT_EQ(denied.res.owner, "owner");
}

// Shows DAFS-2.4.3-01 (the server's part): all bytes of the string count, and none has a meaning.
TEST_F(ClientIdsTest, NameIsOpaque) {
  StartServer();
  const std::string names[] = {std::string("n\0a", 3), std::string("n\0b", 3), "n", "N", "n/../n",
                               "\xff\xfe\n",           std::string(200, 'n')};
  std::vector<wire::ClientId> ids;
  for (const std::string& name : names) {
    ids.push_back(IdOf(name, 1));
    EXPECT_EQ(IdOf(name, 1), ids.back());
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(ids[i], ids[j]) << i << " and " << j;
  }
  EXPECT_EQ(server_->clients(), std::size(names));
}

// Shows DAFS-6.2.1-05
TEST_F(ClientIdsTest, ZeroRequestsTheDefaultOfTheServer) {
  options_.default_message_bytes = 6000;
  options_.default_requests = 5;
  options_.default_credentials = 7;
  StartServer();
  auto client = Connection();
  auto reply = client->Call(Plain("zero"));
  ASSERT_EQ(reply.name(), kOk);
  EXPECT_EQ(reply.res.max_request_size, 6000u);
  EXPECT_EQ(reply.res.max_response_size, 6000u);
  EXPECT_EQ(reply.res.max_requests, 5u);
  EXPECT_EQ(reply.res.max_credentials, 7u);
  EXPECT_EQ(reply.res.inline_write_header_size, 0u);  // no padding
}

// Shows DAFS-3.1.2.2-01 (the server's part), DAFS-3.2.6.4.1-01 (the server's part): neither a
// second CLIENT_CONNECT_AUTH nor a repeated CONNECT_BIND changes the sizes. Shows DAFS-3.2.6.2-02
// of the server: no response is longer.
TEST_F(ClientIdsTest, MessageSizesStayFixed) {
  StartServer();
  wire::ClientConnectAuthArgs args = ConnectArgs("fixed");
  args.max_request_size = 2048;
  args.max_response_size = 2048;
  args.use_back_control_channel = true;
  auto client = Session(args);
  ASSERT_EQ(negotiated_.max_request_size, 2048u);
  const wire::SessionId id = negotiated_.session_id;
  args.max_request_size = args.max_response_size = 8192;
  EXPECT_EQ(client->Call(args).name(), "DAFSERR_ILLEGAL_STATE");
  ActAsRoot(*client);
  WriteFile("a/f", Pattern(10000));
  // The response holds what fits into 2048 bytes.
  wire::ReadInlineArgs read;
  read.filehandle = LookUp(*client, {"a", "f"});
  read.byte_count = 6000;
  auto got = client->Call(read);
  ASSERT_EQ(got.name(), kOk);
  EXPECT_LE(got.message.size(), 2048u);

  auto channel = RawClient::Connect(*provider_, address(), 8, {}, &client->domain());
  ASSERT_NE(channel, nullptr);
  wire::ConnectBindArgs bind;
  bind.session_id = id;
  bind.channel_use = wire::ChannelUse::kBackControl;
  bind.auth_req.auth_type = wire::AuthType::kNone;
  bind.max_requests = 2;
  bind.max_request_size = 1024;
  bind.max_response_size = 4096;
  const auto expect_sizes = [&] {
    auto bound = channel->Call(bind);
    ASSERT_EQ(bound.name(), kOk);
    EXPECT_EQ(bound.res.max_request_size, 1024u);
    EXPECT_EQ(bound.res.max_response_size, 4096u);
    EXPECT_EQ(bound.res.max_requests, 2u);
  };
  expect_sizes();
  bind.max_request_size = 4096;
  bind.max_response_size = 2048;
  bind.max_requests = 1;
  expect_sizes();
  // A request of more than 2048 bytes does not fit into a receive, and ends the session.
  Bytes message = client->Encode(client->Header(), wire::NullArgs());
  message.resize(4096);
  client->Send(message);
  EXPECT_TRUE(client->AwaitClosed());
}

// Shows DAFS-6.2.6-01: before the authentication, and with channels bound. Shows DAFS-E.3-04 (the
// server's part): the response to DISCONNECT precedes the end of the connections.
TEST_F(ClientIdsTest, DisconnectEndsSessionAndItsChannelsAtAnyTime) {
  options_.workers = 1;  // channels without private data find their session
  StartServer();
  auto unauthenticated = Connection();
  ASSERT_EQ(unauthenticated->Call(Plain("early")).name(), kOk);
  EXPECT_EQ(unauthenticated->Call(wire::DisconnectArgs()).name(), kOk);
  EXPECT_TRUE(unauthenticated->AwaitClosed());

  wire::ClientConnectAuthArgs args = ConnectArgs("late");
  args.use_back_control_channel = args.use_rdma_read_channel = true;
  auto client = Session(args);
  std::vector<std::unique_ptr<RawClient>> channels;
  wire::ConnectBindArgs bind;
  for (const wire::ChannelUse use : {wire::ChannelUse::kBackControl, wire::ChannelUse::kRdmaRead}) {
    channels.push_back(RawClient::Connect(*provider_, address(), 8, {}, &client->domain()));
    ASSERT_NE(channels.back(), nullptr);
    bind.session_id = negotiated_.session_id;
    bind.channel_use = use;
    bind.auth_req.auth_type = wire::AuthType::kNone;
    bind.max_requests = 2;
    bind.max_request_size = bind.max_response_size = 1024;
    ASSERT_EQ(channels.back()->Call(bind).name(), kOk);
  }
  EXPECT_EQ(client->Call(wire::DisconnectArgs()).name(), kOk);
  EXPECT_TRUE(client->AwaitClosed());
  for (const auto& channel : channels) EXPECT_TRUE(channel->AwaitClosed());
  EXPECT_EQ(Connection()->Call(bind).name(), "DAFSERR_UNKNOWN_SESSION");
  channels.clear();
}

}  // namespace
}  // namespace dafs::server
