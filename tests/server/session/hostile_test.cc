// Peers that disconnect abruptly, send garbage or send nothing; many sessions; limits; stop and
// restart.
#include <sys/socket.h>

#include <random>

#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

class HostileTest : public ServerTest {
 protected:
  // Waits until the server has `count` connections.
  void AwaitConnections(size_t count) {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (server_->connections() != count && Loop::Now() < deadline) sched_yield();
    EXPECT_EQ(server_->connections(), count);
  }
};

// Shows that garbage costs the server one connection and no more.
TEST_F(HostileTest, GarbageOnATcpConnectionAffectsNoOtherSession) {
  StartServer();
  auto bystander = Session("bystander");
  std::mt19937 random(4711);
  for (int i = 0; i < 50; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, address().get(), address().size()), 0);
    std::string rubbish(random() % 3000, '\0');
    for (char& c : rubbish) c = static_cast<char>(random());
    [[maybe_unused]] ssize_t sent = send(fd, rubbish.data(), rubbish.size(), MSG_NOSIGNAL);
    close(fd);
    ASSERT_EQ(bystander->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  }
  AwaitConnections(1);
}

// Shows DAFS-A.5-02: clients that only check whether a server answers.
TEST_F(HostileTest, ProbesAreAnsweredAndHoldNoResources) {
  StartServer();
  for (int i = 0; i < 20; ++i) {
    auto client = Connection();
    ASSERT_NE(client, nullptr);
    if (i % 2 == 0) {
      EXPECT_EQ(client->Call(wire::NullArgs()).name(), "DAFSERR_ILLEGAL_STATE");
    }
  }
  AwaitConnections(0);
  EXPECT_EQ(server_->message_bytes(), 0u);
}

TEST_F(HostileTest, GarbageMessagesEndOnlyTheirOwnSession) {
  StartServer();
  auto bystander = Session("bystander");
  std::mt19937 random(4712);
  for (int i = 0; i < 60; ++i) {
    auto client = i % 2 == 0 ? Connection() : Session("c");
    Bytes rubbish(8 * (1 + random() % 100));
    for (std::byte& b : rubbish) b = static_cast<std::byte>(random());
    if (!client->Send(rubbish)) continue;
    EXPECT_TRUE(client->AwaitClosed());
    ASSERT_EQ(bystander->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
  }
  bystander->Close();
  AwaitConnections(0);
}

// Valid messages with some bytes changed. The server may answer anything, but it continues.
TEST_F(HostileTest, MutatedRequestsAffectNoOtherSession) {
  StartServer();
  WriteFile("a/f", Pattern(1000));
  auto bystander = Session("bystander");
  std::mt19937 random(4713);
  std::unique_ptr<RawClient> client;
  for (int i = 0; i < 600; ++i) {
    if (client == nullptr || client->closed()) {
      client = Session("mutant");
      ActAsRoot(*client);
    }
    wire::LookupArgs lookup;
    lookup.directory = Root(*client);
    lookup.path = {"a", "f"};
    wire::SetattrInlineArgs setattr;
    setattr.filehandle = lookup.directory;
    setattr.obj_attributes.owner = "0";
    setattr.obj_attributes.set(wire::kFattrOwner);
    wire::ReadDirectArgs read;
    read.filehandle = lookup.directory;
    read.read_data_buffers.resize(3);
    wire::BatchSubmitArgs batch;
    batch.requests.resize(2);
    for (wire::RwRequest& request : batch.requests) {
      request.filehandle = lookup.directory;
      request.chunks.resize(2);
      request.request_buffers.resize(1);
      request.request_id = random();
    }
    batch.synchronous = i % 8 == 2;
    Bytes message;
    switch (i % 4) {
      case 0:
        message = client->Encode(client->Header(), lookup);
        break;
      case 1:
        message = client->Encode(client->Header(), setattr);
        break;
      case 2:
        message = client->Encode(client->Header(), batch);
        break;
      default:
        message = client->Encode(client->Header(), read);
        break;
    }
    for (unsigned n = 0; n < 1 + random() % 3; ++n) {
      message[16 + random() % (message.size() - 16)] = static_cast<std::byte>(random());
    }
    if (client->Send(message)) client->Receive();
    client.reset();
  }
  EXPECT_EQ(bystander->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

// The server drops a connection without messages, or with half a session, after a timeout.
TEST_F(HostileTest, SilentConnectionsAreDroppedAndIdleSessionsKept) {
  options_.connect_timeout = absl::Milliseconds(300);
  StartServer();
  auto idle = Session("idle");
  auto silent = Connection();
  auto half = Connection();
  wire::ClientConnectArgs connect;
  connect.client_id_string = "half";
  EXPECT_EQ(half->Call(connect).name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(silent->AwaitClosed());
  EXPECT_TRUE(half->AwaitClosed());
  EXPECT_EQ(idle->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

// A client that neither answers RDMA reads nor receives the data it requested loses its session.
// Its memory is then free for other clients.
TEST_F(HostileTest, ClientsThatDoNotMoveTheirDataLoseTheirSessions) {
  if (dat::testing::OverRdma()) GTEST_SKIP() << "the device moves the data without the client";
  options_.workers = 1;
  options_.transfer_timeout = absl::Milliseconds(300);
  StartServer();
  WriteFile("a/f", Pattern(1 << 20));
  auto bystander = Session("bystander");
  ActAsRoot(*bystander);
  const wire::FileHandle file = LookUp(*bystander, {"a", "f"});
  DirectMemory memory = bystander->NewMemory(1 << 20, dat::Access::kRemoteBoth);
  for (bool reads : {true, false}) {
    std::vector<std::unique_ptr<RawClient>> clients;
    std::vector<DirectMemory> memories;
    for (int i = 0; i < 4; ++i) {  // they hold all of the memory
      clients.push_back(Session("still" + std::to_string(i)));
      RawClient& client = *clients.back();
      memories.push_back(client.NewMemory(1 << 20, dat::Access::kRemoteBoth));
      ActAsRoot(client);
      wire::ReadDirectArgs read;
      wire::WriteDirectArgs write;
      read.filehandle = write.filehandle = file;
      read.read_data_buffers = write.write_data_buffers = {memories.back().At(0, 1 << 20)};
      read.byte_count = write.byte_count = 1 << 20;
      for (uint16_t s = 0; s < 16; ++s) {
        ASSERT_TRUE(reads ? client.SendRequest(read, s) : client.SendRequest(write, s));
      }
    }
    wire::ReadDirectArgs read;
    read.filehandle = file;
    read.read_data_buffers = {memory.At(0, 1 << 20)};
    read.byte_count = 1 << 20;
    EXPECT_EQ(bystander->Call(read).name(), "DAFS_STATUS_OK");
    AwaitConnections(1);
  }
}

// A client that vanishes during transfers leaves no resources in use.
TEST_F(HostileTest, ClientsThatVanishDuringTransfersHoldNoResources) {
  StartServer();
  WriteFile("a/f", Pattern(1 << 20));
  for (int i = 0; i < 12; ++i) {
    auto client = Session("vanish" + std::to_string(i));
    ActAsRoot(*client);
    wire::ReadDirectArgs read;
    read.filehandle = LookUp(*client, {"a", "f"});
    DirectMemory memory = client->NewMemory(1 << 20, dat::Access::kRemoteBoth);
    read.read_data_buffers = {memory.At(0, 1 << 20)};
    read.byte_count = 1 << 20;
    wire::CommitArgs commit;
    commit.filehandle = read.filehandle;
    for (uint16_t s = 0; s < 8; ++s) {
      if (s % 2 == 0) client->SendRequest(read, s);
      if (s % 2 == 1) client->SendRequest(commit, s);
    }
    client->Vanish();  // before the memory is freed that the server may be writing to
  }
  AwaitConnections(0);
  EXPECT_EQ(server_->message_bytes(), 0u);
  auto after = Session("after");
  EXPECT_EQ(after->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

TEST_F(HostileTest, ServesTwoHundredSessionsAtOnce) {
  options_.max_sessions_per_address = 200;
  StartServer();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 200; ++i) {
    auto client = RawClient::Connect(*provider_, address(), 4);
    ASSERT_NE(client, nullptr);
    wire::ClientConnectAuthArgs args = ConnectArgs("many" + std::to_string(i));
    args.max_requests = 2;
    ASSERT_EQ(client->Call(args).name(), "DAFS_STATUS_OK");
    clients.push_back(std::move(client));
  }
  EXPECT_EQ(server_->connections(), 200u);
  // One more connection from this address exceeds the limit.
  auto refused = RawClient::Connect(*provider_, address(), 4);
  EXPECT_TRUE(refused == nullptr || refused->AwaitClosed());
  for (int round = 0; round < 3; ++round) {
    for (auto& client : clients) ASSERT_TRUE(client->SendRequest(wire::NullArgs()));
    for (auto& client : clients) {
      ASSERT_EQ(client->ReceiveReply<wire::NullArgs>().name(), "DAFS_STATUS_OK");
    }
  }
  clients.clear();
  AwaitConnections(0);
}

// A stop ends the sessions. A restarted server knows the filehandles, but not the sessions.
TEST_F(HostileTest, RestartKeepsFilehandles) {
  StartServer();
  WriteFile("a/f", "still here");
  auto client = Session("r");
  ActAsRoot(*client);
  const wire::FileHandle file = LookUp(*client, {"a", "f"});
  const wire::ClientId old_id = negotiated_.client_id;
  auto second = Server::Start(options_, Providers());
  ASSERT_FALSE(second.ok());  // the state directory is in use
  EXPECT_THAT(std::string(second.status().message()), testing::HasSubstr("in use"));
  StartServer();
  EXPECT_TRUE(client->AwaitClosed());
  client = Session("r");
  EXPECT_NE(negotiated_.client_id, old_id);
  ActAsRoot(*client);
  wire::ReadInlineArgs read;
  read.filehandle = file;
  read.byte_count = 100;
  auto reply = client->Call(read);
  ASSERT_EQ(reply.name(), "DAFS_STATUS_OK");
  EXPECT_EQ(reply.res.bytes_read, 10u);
}

// A response that does not fit: WIRE 9.2, TOOSMALL. Shows DAFS-3.2.6.3-07.
TEST_F(HostileTest, ResponseBeyondTheNegotiatedSizeReturnsTooSmall) {
  StartServer();
  ASSERT_EQ(symlink(std::string(2000, 'x').c_str(), Path("a/link").c_str()), 0);
  wire::ClientConnectAuthArgs args = ConnectArgs("small");
  args.max_response_size = 1024;
  auto client = Session(args);
  ActAsRoot(*client);
  wire::ReadlinkInlineArgs readlink;
  readlink.filehandle = LookUp(*client, {"a", "link"});
  EXPECT_EQ(client->Call(readlink).name(), "DAFSERR_TOOSMALL");
}

}  // namespace
}  // namespace dafs::server
