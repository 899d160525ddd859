// A client that submits batches, and answers the directives with their results.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/server_fixture.h"
#include "wire/codec/checksum.h"

namespace dafs::server {

using wire::ByteOrder;
using wire::DafsStatus;

class BatchTest : public ServerTest {
 protected:
  static constexpr uint32_t kHour = 3600000000;  // in microseconds, for usec_window

  void SetUp() override {
    ServerTest::SetUp();
    options_.workers = 1;  // channels without private data find their session
  }

  // Starts a session with a file "f" of `content`, and its channels.
  void Start(bool read_channel = false, ByteOrder order = ByteOrder::kLittle,
             bool checksums = false) {
    StartServer();
    WriteFile("a/f", Pattern(400000));
    wire::ClientConnectAuthArgs args = ConnectArgs("batch");
    args.use_back_control_channel = true;
    args.use_rdma_read_channel = read_channel;
    args.use_checksums = checksums;
    args.use_response_cache = true;
    args.fence_id_string = fence_id_;
    session_ = Session(args, order);
    ASSERT_TRUE(negotiated_.use_back_control_channel);
    ActAsRoot(*session_);
    auto opened = session_->Call(OpenArgs(LookUp(*session_, {"a"}), "f", false));
    ASSERT_EQ(opened.name(), "DAFS_STATUS_OK");
    file_ = opened.res.filehandle;
    state_id_ = opened.res.state_id;
    memory_ = session_->NewMemory(8 << 20, dat::Access::kRemoteBoth);
    if (read_channel) {
      read_channel_ = Channel();
      ASSERT_EQ(read_channel_->Call(Bind(wire::ChannelUse::kRdmaRead)).name(), "DAFS_STATUS_OK");
    }
  }

  // Destroys each object before the object it belongs to.
  void End() {
    back_.reset();
    read_channel_.reset();
    memory_ = DirectMemory();
    session_.reset();
  }

  std::unique_ptr<RawClient> Channel() {
    auto channel = RawClient::Connect(*provider_, address(), 20, {}, &session_->domain());
    EXPECT_NE(channel, nullptr);
    channel->order = session_->order;
    return channel;
  }

  wire::ConnectBindArgs Bind(wire::ChannelUse use) const {
    wire::ConnectBindArgs bind;
    bind.session_id = negotiated_.session_id;
    bind.channel_use = use;
    bind.max_request_size = 4096;
    bind.max_response_size = 1024;
    bind.max_requests = 8;
    bind.auth_req.auth_type = wire::AuthType::kNone;
    return bind;
  }
  void BindBackControl() {
    back_ = Channel();
    ASSERT_EQ(back_->Call(Bind(wire::ChannelUse::kBackControl)).name(), "DAFS_STATUS_OK");
    back_->checksums = session_->checksums;
  }

  // Starts a session that is busy: it waits on stream 1 for `size` bytes of the client, which
  // arrive once read_channel_polled_ is set.
  void StartBusy(uint32_t size = 1000) {
    Start(/*read_channel=*/true);
    BindBackControl();
    read_channel_polled_ = false;
    wire::WriteDirectArgs write;
    write.filehandle = file_;
    write.state_id = state_id_;
    write.byte_count = size;
    write.write_data_buffers = {memory_.At(4000000, size)};
    ASSERT_TRUE(session_->SendRequest(write, 1));
  }

  wire::RwRequest Item(wire::RwFlag flag, uint64_t id, uint64_t offset, uint32_t size,
                       size_t at = 0) {
    wire::RwRequest item;
    item.filehandle = file_;
    item.state_id = state_id_;
    item.request_id = id;
    item.rw_flag = flag;
    item.chunks = {{.offset = offset, .byte_count = size}};
    item.request_buffers = {memory_.At(at, size)};
    return item;
  }
  static wire::BatchSubmitArgs Batch(std::vector<wire::RwRequest> items, uint32_t window = 0,
                                     uint32_t completions = 0) {
    wire::BatchSubmitArgs args;
    args.requests = std::move(items);
    args.usec_window = window;
    args.num_completions = completions;
    return args;
  }
  std::string Submit(const wire::BatchSubmitArgs& args, uint16_t stream = 0) {
    EXPECT_TRUE(session_->SendRequest(args, stream));
    auto reply = session_->ReceiveReply<wire::BatchSubmitArgs>();
    EXPECT_TRUE(reply.closed || args.synchronous || reply.res.completions.empty());
    return reply.name();
  }

  // Returns the next directive. `Answer` sends its response.
  struct Directive {
    wire::RequestHeader header;
    std::vector<wire::CompletionNotification> completions;
  };
  std::optional<Directive> Take() {
    // The operation channel may have to move data meanwhile.
    const absl::Time deadline = Loop::Now() + kPatience;
    while (!back_->ready() && Loop::Now() < deadline) {
      back_->Poll();
      session_->Poll();
      if (read_channel_ != nullptr && read_channel_polled_) read_channel_->Poll();
    }
    std::optional<Bytes> message = back_->Receive();
    if (!message) return std::nullopt;
    auto header = wire::DecodeRequestHeader(*message, back_->order);
    EXPECT_TRUE(header.ok());
    if (!header.ok()) return std::nullopt;
    EXPECT_EQ(header->header.procedure, wire::Proc::kBcBatchCompletion);
    EXPECT_EQ(header->header.chain_flags, 0u);
    EXPECT_TRUE(header->header.cred_handle.is_zero());
    EXPECT_EQ(header->header.message_checksum,
              back_->checksums ? wire::MessageChecksum(*message, back_->order) : wire::Checksum());
    wire::BcBatchCompletionArgs args;
    EXPECT_EQ(wire::DecodeArgs(*message, back_->order, args), DafsStatus::kOk);
    return Directive{header->header, args.completions};
  }
  bool Answer(const Directive& directive, DafsStatus status = DafsStatus::kOk,
              uint16_t target_nreq = 8) {
    Bytes out(wire::kHeaderSize);
    wire::EncodeResponseHeaderOnly(wire::ResponseTo(directive.header, status, target_nreq),
                                   back_->order, out, back_->checksums);
    return back_->Send(out);
  }
  // Receives and answers directives until `count` items are reported, each once.
  std::map<uint64_t, wire::CompletionNotification> Collect(size_t count) {
    std::map<uint64_t, wire::CompletionNotification> all;
    while (all.size() < count) {
      std::optional<Directive> directive = Take();
      if (!directive) break;
      sizes_.push_back(directive->completions.size());
      for (const auto& done : directive->completions) {
        EXPECT_TRUE(all.emplace(done.request_id, done).second) << done.request_id;
      }
      EXPECT_TRUE(Answer(*directive));
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }
  bool NothingReported() {
    EXPECT_EQ(session_->Call(wire::NullArgs()).name(), "DAFS_STATUS_OK");
    back_->Poll();
    return !back_->ready();
  }
  void AwaitNoConnection() {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (server_->connections() > 0 && Loop::Now() < deadline) sched_yield();
    EXPECT_EQ(server_->connections(), 0u);
  }
  std::string HurryUp(uint64_t id) {
    wire::HurryUpArgs args;
    args.request_id = id;
    return session_->Call(args).name();
  }

  std::unique_ptr<RawClient> session_;
  std::unique_ptr<RawClient> read_channel_;
  std::unique_ptr<RawClient> back_;
  bool read_channel_polled_ = true;
  std::string fence_id_;  // of the session
  DirectMemory memory_;
  wire::FileHandle file_;
  wire::StateId state_id_;
  std::vector<size_t> sizes_;
};

}  // namespace dafs::server
