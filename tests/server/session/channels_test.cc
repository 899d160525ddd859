// The optional channels: granting, binding and using them, and their end with the session.
#include <array>
#include <cstring>

#include "tests/server/server_fixture.h"

namespace dafs::server {
namespace {

class ChannelsTest : public ServerTest {
 protected:
  // The private data of the connection requests of session `number` (WIRE 11.1), little-endian.
  static std::array<std::byte, 16> PrivateData(uint8_t number, uint8_t channel_type) {
    std::array<std::byte, 16> bytes{std::byte{0x53}, std::byte{0x46}, std::byte{0x41},
                                    std::byte{0x44}};
    bytes[8] = std::byte{number};
    bytes[12] = std::byte{channel_type};
    return bytes;
  }

  // Opens a session as client "c<number>", with a file to write to.
  std::unique_ptr<RawClient> Start(uint8_t number, bool wishes_channel,
                                   bool wishes_back_control = false) {
    auto client =
        RawClient::Connect(*provider_, address(), 80, PrivateData(number, wire::kChannelOperation));
    EXPECT_NE(client, nullptr);
    wire::ClientConnectAuthArgs args = ConnectArgs("c" + std::to_string(number));
    args.use_rdma_read_channel = wishes_channel;
    args.use_back_control_channel = wishes_back_control;
    auto reply = client->Call(args);
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    negotiated_ = reply.res;
    ActAsRoot(*client);
    auto opened = client->Call(OpenArgs(LookUp(*client, {"a"}), "f", true));
    EXPECT_EQ(opened.name(), "DAFS_STATUS_OK");
    write_.filehandle = opened.res.filehandle;
    write_.state_id = opened.res.state_id;
    return client;
  }

  // Opens a connection in the domain of `session`, not bound yet.
  std::unique_ptr<RawClient> Channel(RawClient& session, uint8_t number) {
    auto channel = RawClient::Connect(
        *provider_, address(), 1, PrivateData(number, wire::kChannelRdmaRead), &session.domain());
    EXPECT_NE(channel, nullptr);
    return channel;
  }

  wire::ConnectBindArgs Bind() const {
    wire::ConnectBindArgs bind;
    bind.session_id = negotiated_.session_id;
    bind.channel_use = wire::ChannelUse::kRdmaRead;
    bind.max_requests = 7;
    bind.auth_req.auth_type = wire::AuthType::kNone;
    return bind;
  }

  // Opens and binds the Back-control Channel of `session`.
  std::unique_ptr<RawClient> BackControl(RawClient& session, uint8_t number) {
    auto channel =
        RawClient::Connect(*provider_, address(), 8, PrivateData(number, wire::kChannelBackControl),
                           &session.domain());
    EXPECT_NE(channel, nullptr);
    wire::ConnectBindArgs bind = Bind();
    bind.channel_use = wire::ChannelUse::kBackControl;
    bind.max_request_size = 4096;
    bind.max_response_size = 1024;
    EXPECT_EQ(channel->Call(bind).name(), "DAFS_STATUS_OK");
    return channel;
  }
  // Returns an asynchronous batch of one read (or write) of the first bytes of the file.
  wire::BatchSubmitArgs Batch(wire::RwFlag flag, const wire::DirectOpBuffer& buffer) const {
    wire::BatchSubmitArgs batch;
    wire::RwRequest& item = batch.requests.emplace_back();
    item.filehandle = write_.filehandle;
    item.state_id = write_.state_id;
    item.request_id = 1;
    item.rw_flag = flag;
    item.chunks = {{.offset = 0, .byte_count = buffer.buffer_byte_count}};
    item.request_buffers = {buffer};
    return batch;
  }
  // Polls both, so that data moves on `channel`, until a message has arrived on `client`.
  static void AwaitMessage(RawClient& client, RawClient& channel) {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (!client.ready() && Loop::Now() < deadline) {
      channel.Poll();
      client.Poll();
    }
  }

  // `channel` carries the data. In user space it answers RDMA only while it is polled.
  std::string WriteDirect(RawClient& client, const std::string& data,
                          RawClient* channel = nullptr) {
    DirectMemory memory = client.NewMemory(data.size(), dat::Access::kRemoteRead);
    std::memcpy(memory.bytes.data(), data.data(), data.size());
    write_.byte_count = static_cast<uint32_t>(data.size());
    write_.write_data_buffers = {memory.At(0, data.size())};
    EXPECT_TRUE(client.SendRequest(write_));
    if (channel != nullptr) AwaitMessage(client, *channel);
    return client.ReceiveReply<wire::WriteDirectArgs>().name();
  }

  wire::WriteDirectArgs write_;
};

// Shows DAFS-3.1.2.3.4-04, DAFS-3.1.2.3.4.1-03, DAFS-3.1.2.3.5-03, DAFS-3.2.3.2.1-02 (on the
// channel), DAFS-2.4.3-06; R61. Also DAFS-3.2.4.1-02: the loss of the channel ends the session.
TEST_F(ChannelsTest, RequiredChannelMustBeBoundBeforeMemoryIsRead) {
  options_.rdma_read_channel = RdmaReadChannel::kRequired;
  StartServer();
  const std::string data = Pattern(300000);
  // One session for each worker.
  for (uint8_t number : {uint8_t{1}, uint8_t{2}}) {
    auto session = Start(number, /*wishes_channel=*/false);
    EXPECT_TRUE(negotiated_.use_rdma_read_channel);
    EXPECT_EQ(WriteDirect(*session, data), "DAFSERR_RDMA_READ_CHANNEL_UNUSABLE");
    auto channel = Channel(*session, number);
    auto bound = channel->Call(Bind());
    ASSERT_EQ(bound.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(bound.res.max_requests, 7u);
    EXPECT_TRUE(bound.res.trusted);
    EXPECT_EQ(WriteDirect(*session, data, channel.get()), "DAFS_STATUS_OK");
    EXPECT_TRUE(ReadFile("a/f") == data);
    // It stays a channel: it takes no requests, except a repeated bind.
    EXPECT_EQ(channel->Call(wire::NullArgs()).name(), "DAFSERR_NOTSUPP");
    EXPECT_EQ(channel->Call(Bind()).name(), "DAFS_STATUS_OK");
    EXPECT_EQ(Channel(*session, number)->Call(Bind()).name(), "DAFSERR_ILLEGAL_STATE");
    EXPECT_EQ(WriteDirect(*session, Pattern(5), channel.get()), "DAFS_STATUS_OK");
    channel->Close();
    channel.reset();
    EXPECT_TRUE(session->AwaitClosed());
  }
}

// Shows DAFS-6.5.4-02, DAFS-3.1.2.3.2-09: every procedure that makes the server read client memory
// needs the channel, and no other does.
TEST_F(ChannelsTest, EachProcedureThatReadsMemoryNeedsTheChannel) {
  options_.rdma_read_channel = RdmaReadChannel::kRequired;
  StartServer();
  auto session = Start(1, /*wishes_channel=*/false);
  DirectMemory memory = session->NewMemory(4096, dat::Access::kRemoteBoth);
  wire::AppendDirectArgs append;
  append.filehandle = write_.filehandle;
  append.state_id = write_.state_id;
  append.byte_count = 10;
  append.stable_how = wire::StableHow::kDataSync;
  append.write_data_buffer = memory.At(0, 10);
  EXPECT_EQ(session->Call(append).name(), "DAFSERR_RDMA_READ_CHANNEL_UNUSABLE");
  wire::SetattrDirectArgs setattr;
  setattr.filehandle = write_.filehandle;
  setattr.obj_attributes = memory.At(0, 16);
  EXPECT_EQ(session->Call(setattr).name(), "DAFSERR_RDMA_READ_CHANNEL_UNUSABLE");
  wire::ReadDirectArgs read;
  read.filehandle = write_.filehandle;
  read.byte_count = 10;
  read.read_data_buffers = {memory.At(0, 10)};
  EXPECT_EQ(session->Call(read).name(), "DAFS_STATUS_OK");
  wire::GetattrDirectArgs getattr;
  getattr.filehandle = write_.filehandle;
  getattr.attr_request_bitmap = wire::kFattrObjectSize;
  getattr.data_buffer = memory.At(0, 64);
  EXPECT_EQ(session->Call(getattr).name(), "DAFS_STATUS_OK");
}

// WIRE 11.1: private data is only advice. With missing or invalid private data a channel still
// finds its session, on any worker.
TEST_F(ChannelsTest, PrivateDataMayBeMissingOrInvalid) {
  StartServer();
  const std::array<std::byte, 16> rubbish{std::byte{7}};
  for (const std::span<const std::byte> data : {std::span<const std::byte>(), {rubbish}}) {
    for (int round = 0; round < 4; ++round) {
      auto session = RawClient::Connect(*provider_, address(), 8, data);
      ASSERT_NE(session, nullptr);
      wire::ClientConnectAuthArgs args = ConnectArgs("p" + std::to_string(round));
      args.use_rdma_read_channel = true;
      auto connected = session->Call(args);
      ASSERT_EQ(connected.name(), "DAFS_STATUS_OK");
      negotiated_ = connected.res;
      auto channel = RawClient::Connect(*provider_, address(), 1, data, &session->domain());
      ASSERT_NE(channel, nullptr);
      EXPECT_EQ(channel->Call(Bind()).name(), "DAFS_STATUS_OK");
    }
  }
}

// Shows DAFS-3.1.2.2-06 (not granted), DAFS-3.1.2.3.5-02, DAFS-3.1.2.3.5-05, DAFS-3.1.2.3.4.2-01,
// DAFS-3.2.3.2.1-02 (on the Operations Channel), DAFS-6.2.1-06.
TEST_F(ChannelsTest, ChannelIsOptional) {
  StartServer();
  auto session = Start(1, /*wishes_channel=*/false);
  EXPECT_FALSE(negotiated_.use_rdma_read_channel);
  EXPECT_EQ(Channel(*session, 1)->Call(Bind()).name(), "DAFSERR_ILLEGAL_STATE");
  EXPECT_EQ(WriteDirect(*session, Pattern(5000)), "DAFS_STATUS_OK");
  options_.rdma_read_channel = RdmaReadChannel::kNever;
  session.reset();
  StartServer();
  session = Start(2, /*wishes_channel=*/true);
  EXPECT_FALSE(negotiated_.use_rdma_read_channel);
  // Shows DAFS-3.1.2.3.4.1-02: the server has rejected the channel, and refuses to bind one.
  EXPECT_EQ(Channel(*session, 2)->Call(Bind()).name(), "DAFSERR_ILLEGAL_STATE");
  EXPECT_EQ(WriteDirect(*session, Pattern(5000)), "DAFS_STATUS_OK");
}

// Shows DAFS-3.1.2.2-06 (granted), DAFS-6.2.5-04, DAFS-6.2.5-06; R81.
TEST_F(ChannelsTest, OnlyTheClientOfASessionBindsItsChannels) {
  StartServer();
  auto session = Start(1, /*wishes_channel=*/true);
  EXPECT_TRUE(negotiated_.use_rdma_read_channel);
  auto channel = Channel(*session, 1);
  wire::ConnectBindArgs bind = Bind();
  bind.auth_req.auth_type = wire::AuthType::kDefault;
  EXPECT_EQ(channel->Call(bind).name(), "DAFSERR_NOT_AUTHORIZED");
  bind = Bind();
  bind.channel_use = wire::ChannelUse::kBackControl;
  EXPECT_EQ(channel->Call(bind).name(), "DAFSERR_ILLEGAL_STATE");
  bind = Bind();
  bind.session_id = wire::OpaqueFromUint64<wire::SessionId>(1);
  EXPECT_EQ(channel->Call(bind).name(), "DAFSERR_UNKNOWN_SESSION");
  EXPECT_EQ(channel->Call(Bind()).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-3.1.2.5-01.
TEST_F(ChannelsTest, ChannelEndsWithItsSession) {
  StartServer();
  auto session = Start(1, /*wishes_channel=*/true);
  auto channel = Channel(*session, 1);
  ASSERT_EQ(channel->Call(Bind()).name(), "DAFS_STATUS_OK");
  session->Vanish();
  EXPECT_TRUE(channel->AwaitClosed());
  const absl::Time deadline = Loop::Now() + kPatience;
  while (server_->connections() > 0 && Loop::Now() < deadline) sched_yield();
  EXPECT_EQ(server_->connections(), 0u);
}

// Shows DAFS-3.1.2.3-01: besides its Operation Channel, a session takes one channel of each use.
TEST_F(ChannelsTest, SessionHasAtMostTwoOptionalChannels) {
  StartServer();
  auto session = Start(1, /*wishes_channel=*/true, /*wishes_back_control=*/true);
  auto channel = Channel(*session, 1);
  ASSERT_EQ(channel->Call(Bind()).name(), "DAFS_STATUS_OK");
  auto back = BackControl(*session, 1);
  wire::ConnectBindArgs third = Bind();
  third.max_request_size = third.max_response_size = 1024;
  for (const wire::ChannelUse use : {wire::ChannelUse::kBackControl, wire::ChannelUse::kRdmaRead}) {
    third.channel_use = use;
    EXPECT_EQ(Channel(*session, 1)->Call(third).name(), "DAFSERR_ILLEGAL_STATE");
  }
  third.channel_use = wire::ChannelUse(3);
  EXPECT_EQ(Channel(*session, 1)->Call(third).name(), "DAFSERR_INVAL");
}

// Shows DAFS-3.1.2.3-02: with one registration the server reads on one channel and writes on the
// two others. Also DAFS-6.2.5-01: each channel is bound for its use.
TEST_F(ChannelsTest, RegistrationServesEveryChannelOfItsSession) {
  StartServer();
  auto session = Start(1, /*wishes_channel=*/true, /*wishes_back_control=*/true);
  auto channel = Channel(*session, 1);
  ASSERT_EQ(channel->Call(Bind()).name(), "DAFS_STATUS_OK");
  auto back = BackControl(*session, 1);
  DirectMemory memory = session->NewMemory(8192, dat::Access::kRemoteBoth);
  const std::string data = Pattern(4096);
  std::memcpy(memory.bytes.data(), data.data(), data.size());
  std::byte* const second = memory.bytes.data() + data.size();
  write_.byte_count = 4096;
  write_.write_data_buffers = {memory.At(0, 4096)};
  ASSERT_TRUE(session->SendRequest(write_));
  AwaitMessage(*session, *channel);
  EXPECT_EQ(session->ReceiveReply<wire::WriteDirectArgs>().name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(ReadFile("a/f") == data);
  wire::ReadDirectArgs read;
  read.filehandle = write_.filehandle;
  read.byte_count = 4096;
  read.read_data_buffers = {memory.At(4096, 4096)};
  EXPECT_EQ(session->Call(read).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(std::memcmp(second, data.data(), data.size()), 0);
  std::memset(second, 0, data.size());
  const auto batch = Batch(wire::RwFlag::kRead, memory.At(4096, 4096));
  EXPECT_EQ(session->Call(batch).name(), "DAFS_STATUS_OK");
  EXPECT_TRUE(back->Receive().has_value());
  EXPECT_EQ(std::memcmp(second, data.data(), data.size()), 0);
}

// Shows DAFS-3.2.6.3-08, DAFS-3.2.3.1-01: the server answers none of the requests while their data
// does not arrive. So it needs a receive for each.
TEST_F(ChannelsTest, AllGrantedRequestsMayBeOutstandingAtFullSize) {
  options_.rdma_read_channel = RdmaReadChannel::kRequired;
  StartServer();
  auto session = Start(1, /*wishes_channel=*/false);
  auto channel = Channel(*session, 1);
  ASSERT_EQ(channel->Call(Bind()).name(), "DAFS_STATUS_OK");
  DirectMemory memory = session->NewMemory(100, dat::Access::kRemoteRead);
  write_.byte_count = 100;
  write_.write_data_buffers = {memory.At(0, 100)};
  const uint32_t size = negotiated_.max_request_size;
  const auto nreq = static_cast<uint16_t>(negotiated_.max_requests);
  for (uint16_t s = 0; s < nreq; ++s) {
    Bytes message = session->Encode(session->Header(s), write_);
    message.resize(size);  // bytes that no offset refers to are ignored (WIRE 2.4)
    std::memcpy(&message[36], &size, sizeof(size));
    ASSERT_TRUE(session->Send(message));
  }
  session->Poll();
  EXPECT_FALSE(session->ready());
  for (uint16_t s = 0; s < nreq; ++s) {
    AwaitMessage(*session, *channel);
    ASSERT_EQ(session->ReceiveReply<wire::WriteDirectArgs>().name(), "DAFS_STATUS_OK");
  }
}

// WIRE 9.4 DISCONNECT: after its response the server sends nothing on any channel, whatever is
// outstanding.
TEST_F(ChannelsTest, NothingIsReportedAfterDisconnect) {
  StartServer();
  auto session = Start(1, /*wishes_channel=*/true, /*wishes_back_control=*/true);
  auto channel = Channel(*session, 1);
  ASSERT_EQ(channel->Call(Bind()).name(), "DAFS_STATUS_OK");
  auto back = BackControl(*session, 1);
  DirectMemory memory = session->NewMemory(100, dat::Access::kRemoteRead);
  // Its data does not arrive before the session has ended.
  const auto batch = Batch(wire::RwFlag::kWrite, memory.At(0, 100));
  EXPECT_EQ(session->Call(batch).name(), "DAFS_STATUS_OK");
  EXPECT_EQ(session->Call(wire::DisconnectArgs()).name(), "DAFS_STATUS_OK");
  const absl::Time deadline = Loop::Now() + kPatience;
  while (!back->ready() && Loop::Now() < deadline) {
    channel->Poll();
    back->Poll();
    session->Poll();
  }
  EXPECT_TRUE(back->closed());
  EXPECT_FALSE(back->Receive().has_value());
}

}  // namespace
}  // namespace dafs::server
