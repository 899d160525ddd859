// Messages of the server on the channels of a session. Spec: 3.1.2.3.4, 3.2.4, 3.2.6.3, 5.2.2.
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/client/forwarding_provider.h"
#include "tests/server/server_fixture.h"
#include "tests/wire/dat/forwarding_endpoint.h"

namespace dafs::server {
namespace {

// The posts of the server's connections, in the order of the connections. Thread-safe.
class Posts {
 public:
  struct Counts {
    int receives = 0, sends = 0, writes = 0, reads = 0;
    int receives_at_accept = 0;          // those posted before the connection was accepted
    std::vector<int> receives_at_sends;  // those posted before each send
    std::vector<dat::Segment> read_into;
  };
  size_t AddConnection() {
    absl::MutexLock lock(&mutex_);
    all_.emplace_back();
    return all_.size() - 1;
  }
  void Count(size_t connection, int Counts::*kind) {
    absl::MutexLock lock(&mutex_);
    Counts& counts = all_[connection];
    ++(counts.*kind);
    if (kind == &Counts::sends) counts.receives_at_sends.push_back(counts.receives);
  }
  void CountRead(size_t connection, std::span<const dat::Segment> into) {
    absl::MutexLock lock(&mutex_);
    Counts& counts = all_[connection];
    ++counts.reads;
    counts.read_into.insert(counts.read_into.end(), into.begin(), into.end());
  }
  void NoteAccept(size_t connection) {
    absl::MutexLock lock(&mutex_);
    Counts& counts = all_[connection];
    counts.receives_at_accept = counts.receives;
  }
  Counts of(size_t connection) const {
    absl::MutexLock lock(&mutex_);
    return all_[connection];
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<Counts> all_ ABSL_GUARDED_BY(mutex_);
};

class CountingEndpoint final : public dat::ForwardingEndpoint {
 public:
  CountingEndpoint(std::unique_ptr<dat::Endpoint> inner, Posts& posts)
      : ForwardingEndpoint(std::move(inner)), posts_(posts), number_(posts.AddConnection()) {}
  absl::Status Accept(std::span<const std::byte> private_data) override {
    posts_.NoteAccept(number_);
    return inner().Accept(private_data);
  }
  absl::Status PostReceive(uint64_t cookie, dat::Segment into) override {
    posts_.Count(number_, &Posts::Counts::receives);
    return inner().PostReceive(cookie, into);
  }
  absl::Status PostSend(uint64_t cookie, std::span<const dat::Segment> from,
                        const SendOptions& options) override {
    posts_.Count(number_, &Posts::Counts::sends);
    return inner().PostSend(cookie, from, options);
  }
  absl::Status PostRdmaWrite(uint64_t cookie, std::span<const dat::Segment> from,
                             dat::RemoteBuffer to, bool signaled) override {
    posts_.Count(number_, &Posts::Counts::writes);
    return inner().PostRdmaWrite(cookie, from, to, signaled);
  }
  absl::Status PostRdmaRead(uint64_t cookie, std::span<const dat::Segment> into,
                            dat::RemoteBuffer from) override {
    posts_.CountRead(number_, into);
    return inner().PostRdmaRead(cookie, into, from);
  }

 private:
  Posts& posts_;
  const size_t number_;
};

class PostCountingProvider final : public client::ForwardingProvider {
 public:
  PostCountingProvider(std::shared_ptr<dat::Provider> inner, Posts& posts)
      : ForwardingProvider(*inner), inner_(std::move(inner)), posts_(posts) {}

 private:
  Wrapper NextWrapper() override {
    return [](EndpointPtr endpoint) { return endpoint; };
  }
  Wrapper NextTakenWrapper() override {
    return [this](EndpointPtr endpoint) -> EndpointPtr {
      return std::make_unique<CountingEndpoint>(std::move(endpoint), posts_);
    };
  }

  const std::shared_ptr<dat::Provider>
      inner_;  // owners: this object, and the fixture that passed it
  Posts& posts_;
};

class ChannelTrafficTest : public ServerTest {
 protected:
  static constexpr size_t kOperations = 0, kReadChannel = 1;  // numbers of connections

  void SetUp() override {
    ServerTest::SetUp();
    options_.workers = 1;  // channels without private data find their session
    options_.rdma_read_channel = RdmaReadChannel::kOffered;
    provider_ = std::make_shared<PostCountingProvider>(provider_, posts_);
  }
  void TearDown() override {
    channel_.reset();
    memory_ = DirectMemory();
    session_.reset();
    ServerTest::TearDown();
  }
  void Start(bool with_channel) {
    StartServer();
    wire::ClientConnectAuthArgs args = ConnectArgs("c");
    args.use_rdma_read_channel = with_channel;
    session_ = Session(args);
    ActAsRoot(*session_);
    auto opened = session_->Call(OpenArgs(LookUp(*session_, {"a"}), "f", true));
    ASSERT_EQ(opened.name(), "DAFS_STATUS_OK");
    write_.filehandle = opened.res.filehandle;
    write_.state_id = opened.res.state_id;
    memory_ = session_->NewMemory(1 << 20, dat::Access::kRemoteBoth);
    if (!with_channel) return;
    channel_ = RawClient::Connect(*provider_, address(), 8, {}, &session_->domain());
    ASSERT_NE(channel_, nullptr);
    wire::ConnectBindArgs bind;
    bind.session_id = negotiated_.session_id;
    bind.channel_use = wire::ChannelUse::kRdmaRead;
    bind.max_requests = 1;
    bind.auth_req.auth_type = wire::AuthType::kNone;
    ASSERT_EQ(channel_->Call(bind).name(), "DAFS_STATUS_OK");
  }
  // Writes `buffers` pieces of 1000 bytes from separate buffers.
  void SendWrite(size_t buffers, uint16_t stream = 0) {
    const std::string data = Pattern(buffers * 1000);
    write_.write_data_buffers.clear();
    write_.byte_count = static_cast<uint32_t>(data.size());
    for (size_t i = 0; i < buffers; ++i) {
      std::memcpy(memory_.bytes.data() + i * 5000, data.data() + i * 1000, 1000);
      write_.write_data_buffers.push_back(memory_.At(i * 5000, 1000));
    }
    ASSERT_TRUE(session_->SendRequest(write_, stream));
  }
  std::string ReceiveWrite() {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (!session_->ready() && Loop::Now() < deadline) {
      if (channel_ != nullptr) channel_->Poll();
      session_->Poll();
    }
    return session_->ReceiveReply<wire::WriteDirectArgs>().name();
  }

  Posts posts_;
  std::unique_ptr<RawClient> session_, channel_;
  DirectMemory memory_;
  wire::WriteDirectArgs write_;
};

// Shows DAFS-3.2.4-01: the server responds after the last read.
TEST_F(ChannelTrafficTest, EachClientBufferIsReadOnItsOwn) {
  Start(/*with_channel=*/false);
  for (const size_t buffers : {size_t{1}, size_t{3}, size_t{8}}) {
    const int before = posts_.of(kOperations).reads;
    SendWrite(buffers);
    EXPECT_EQ(ReceiveWrite(), "DAFS_STATUS_OK");
    EXPECT_EQ(posts_.of(kOperations).reads - before, static_cast<int>(buffers));
    EXPECT_TRUE(ReadFile("a/f").substr(0, buffers * 1000) == Pattern(buffers * 1000));
  }
}

// Shows FAST03-3.1-08: the server chooses memory that fits the request, on pages of its own, and
// the data of all client buffers lies there in order.
TEST_F(ChannelTrafficTest, DataOfAWriteIsReadToWhereTheServerWantsIt) {
  Start(/*with_channel=*/false);
  for (const size_t buffers : {size_t{1}, size_t{8}}) {
    const size_t before = posts_.of(kOperations).read_into.size();
    SendWrite(buffers);
    EXPECT_EQ(ReceiveWrite(), "DAFS_STATUS_OK");
    const std::vector<dat::Segment> all = posts_.of(kOperations).read_into;
    ASSERT_EQ(all.size() - before, buffers);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all[before].data) % 4096, 0u);
    for (size_t i = 0; i < buffers; ++i) {
      EXPECT_EQ(all[before + i].size_bytes, 1000u);
      EXPECT_EQ(all[before + i].data, all[before].data + i * 1000);
    }
  }
}

// Shows DAFS-3.1.2.3.4-05 (server), DAFS-3.2.6.3-02 (server): neither requests nor receives for
// them; direct reads, and their responses, use the Operations Channel.
TEST_F(ChannelTrafficTest, ReadChannelCarriesOnlyReadsOfTheServer) {
  Start(/*with_channel=*/true);
  const Posts::Counts bound = posts_.of(kReadChannel);
  EXPECT_EQ(bound.sends, 1);  // the response of CONNECT_BIND
  session_->desired_nreq = 20;
  for (int i = 0; i < 10; ++i) {
    SendWrite(2);
    EXPECT_EQ(ReceiveWrite(), "DAFS_STATUS_OK");
    wire::ReadDirectArgs read;
    read.filehandle = write_.filehandle;
    read.byte_count = 2000;
    read.read_data_buffers = {memory_.At(500000, 2000)};
    EXPECT_EQ(session_->Call(read).name(), "DAFS_STATUS_OK");
  }
  const Posts::Counts now = posts_.of(kReadChannel);
  EXPECT_EQ(now.reads, 20);
  EXPECT_EQ(now.sends, bound.sends);
  EXPECT_EQ(now.receives, bound.receives);
  EXPECT_EQ(now.writes, 0);
  EXPECT_EQ(posts_.of(kOperations).reads, 0);
}

// Shows DAFS-3.2.6.3-09 (the server's part), DAFS-6.5.1-02: a NULL costs the receive, the response,
// and no other transfer. Shows DAFS-3.2.6.4.2-06: one receive keeps Nreq, none lowers it.
TEST_F(ChannelTrafficTest, ReceiveIsPostedBeforeEachResponseUnlessNreqFalls) {
  Start(/*with_channel=*/false);
  const auto receives_of_nulls = [&](uint32_t count) {
    const Posts::Counts before = posts_.of(kOperations);
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(session_->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
    }
    const Posts::Counts now = posts_.of(kOperations);
    EXPECT_EQ(now.sends - before.sends, static_cast<int>(count));
    EXPECT_EQ(now.reads + now.writes, before.reads + before.writes);
    std::vector<int> posted;
    for (size_t i = now.receives_at_sends.size() - count; i < now.receives_at_sends.size(); ++i) {
      posted.push_back(now.receives_at_sends[i] - before.receives);
    }
    return posted;
  };
  EXPECT_EQ(receives_of_nulls(4), (std::vector<int>{1, 2, 3, 4}));
  session_->desired_nreq = static_cast<uint16_t>(negotiated_.max_requests - 2);
  EXPECT_EQ(receives_of_nulls(4), (std::vector<int>{0, 0, 1, 2}));
}

// Shows DAFS-3.1.2.3.2-04 (the server's part): it has one receive until the client has connected.
// Shows DAFS-E.5.3.2.1-01: the receive is posted before the server accepts the connection.
TEST_F(ChannelTrafficTest, OneReceiveServesTheConnectExchange) {
  StartServer();
  auto client = Connection();
  EXPECT_EQ(posts_.of(kOperations).receives_at_accept, 1);
  EXPECT_EQ(posts_.of(kOperations).receives, 1);
  wire::ClientConnectAuthArgs refused = ConnectArgs("c");
  refused.auth_req.auth_type = wire::AuthType::kGss;
  refused.auth_req.procedure = wire::GssProcedure::kInit;
  refused.auth_req.service = wire::GssService::kAuth;
  for (int exchange = 1; exchange <= 3; ++exchange) {
    EXPECT_EQ(client->Call(refused).name(), "DAFSERR_NOTSUPP");
    EXPECT_EQ(posts_.of(kOperations).receives, exchange + 1);
  }
  EXPECT_EQ(client->Call(ConnectArgs("c")).name(), "DAFS_STATUS_OK");
}

// Shows DAFS-5.2.2-02 (the server's part): a request waits for its data when its stream expires.
TEST_F(ChannelTrafficTest, RequestOnExpiredStreamIsCompleted) {
  Start(/*with_channel=*/true);
  const auto last = static_cast<uint16_t>(negotiated_.max_requests - 1);
  SendWrite(1, last);
  session_->desired_nreq = last;
  for (int i = 0; i < 2; ++i) {
    auto reply = session_->Call(wire::NullArgs());
    EXPECT_EQ(reply.name(), "DAFS_STATUS_OK");
    EXPECT_EQ(reply.header.target_nreq, last);
  }
  EXPECT_EQ(ReceiveWrite(), "DAFS_STATUS_OK");
  EXPECT_TRUE(ReadFile("a/f") == Pattern(1000));
  EXPECT_EQ(session_->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
}

}  // namespace
}  // namespace dafs::server
