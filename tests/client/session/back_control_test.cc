// The client's end of a Back-control Channel. The peer sends whatever the test wants.
#include "client/session/back_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/client/forwarding_provider.h"
#include "tests/wire/dat/forwarding_endpoint.h"
#include "wire/codec/codec.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/messages/messages.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Counts the receives that a connection has posted for requests of the maximum size.
class ReceiveCounter final : public ForwardingProvider {
 public:
  using ForwardingProvider::ForwardingProvider;
  uint32_t posted = 0;                      // and not used yet
  std::vector<uint32_t> receives_at_sends;  // those posted so far, before each send

 private:
  class Endpoint final : public dat::ForwardingEndpoint {
   public:
    Endpoint(EndpointPtr inner, ReceiveCounter& counter)
        : ForwardingEndpoint(std::move(inner)), counter_(counter) {}
    absl::Status PostReceive(uint64_t cookie, dat::Segment into) override {
      if (into.size_bytes >= BackControl::kMaxRequest) {
        ++counter_.posted;
        ++receives_;
      }
      return inner().PostReceive(cookie, into);
    }
    absl::Status PostSend(uint64_t cookie, std::span<const dat::Segment> from,
                          const SendOptions& options) override {
      counter_.receives_at_sends.push_back(receives_);
      return inner().PostSend(cookie, from, options);
    }
    size_t Poll(std::span<dat::Completion> out) override {
      const size_t count = inner().Poll(out);
      for (const dat::Completion& done : out.first(count)) {
        if (done.event == dat::Event::kReceive) --counter_.posted;
      }
      return count;
    }

   private:
    ReceiveCounter& counter_;
    uint32_t receives_ = 0;
  };
  Wrapper NextWrapper() override {
    return
        [this](EndpointPtr inner) { return std::make_unique<Endpoint>(std::move(inner), *this); };
  }
};

class BackControlTest : public testing::Test, public BackControlHandler {
 protected:
  static constexpr size_t kBuffer = 8192;

  void SetUp() override {
    listener_ = *provider_->Listen((*dat::ResolveHost("127.0.0.1", 0))[0]);
    loop_ = *Loop::Create({.max_spin = absl::ZeroDuration()});
    auto pending = provider_->Resolve(listener_->local(), "", kPatience);
    ASSERT_TRUE(pending.ok());
    domain_ = *(*pending)->NewDomain();
    Channel::Options options;
    options.address = listener_->local();
    options.connect_timeout = kPatience;
    auto channel = BackControl::Connect(*loop_, counter_, *domain_, options, /*checksums=*/false);
    ASSERT_TRUE(channel.ok()) << channel.status();
    channel_ = *std::move(channel);
    channel_->OnDirective(this);
    channel_->OnLost([this](const absl::Status& why) { lost_ = why; });
    Accept();
  }
  void TearDown() override {
    channel_.reset();
    endpoint_.reset();
  }

  void OnBatchCompletion(const std::vector<wire::CompletionNotification>& completions) override {
    for (const auto& done : completions) reported_.push_back(done.request_id);
  }
  void OnChanged(std::vector<wire::Changed> changed, absl::AnyInvocable<void()> answer) override {
    for (wire::Changed& change : changed) changed_.push_back(std::move(change));
    if (!holds_) return answer();
    held_.push_back(std::move(answer));
  }
  bool HoldsWriteDelegation(const wire::FileHandle&) override { return holds_write_; }
  void OnLockFree(const wire::FileHandle& file, uint64_t offset, uint64_t length) override {
    free_.push_back({file, offset, length});
  }

  void Accept() {
    std::unique_ptr<dat::PendingEndpoint> pending;
    Until([&] {
      if (pending != nullptr) return true;
      auto next = listener_->Next();
      if (next.ok()) pending = *std::move(next);
      return pending != nullptr;
    });
    ASSERT_NE(pending, nullptr);
    EXPECT_EQ(pending->peer_private_data()[12], std::byte{wire::kChannelBackControl});
    peer_domain_ = *pending->NewDomain();
    endpoint_ = *pending->CreateEndpoint(*peer_domain_, {});
    memory_.resize(24 * kBuffer);
    region_ = *peer_domain_->Register(memory_, dat::Access::kLocal);
    for (uint64_t i = 8; i < 24; ++i) {
      ASSERT_TRUE(
          endpoint_->PostReceive(i, {memory_.data() + i * kBuffer, kBuffer, region_.get()}).ok());
    }
    ASSERT_TRUE(endpoint_->Accept({}).ok());
  }

  template <class Done>
  bool Until(Done done) {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (!done() && Loop::Now() < deadline) {
      loop_->RunOnce(absl::ZeroDuration());
      dat::Completion completion;
      if (endpoint_ == nullptr || endpoint_->Poll({&completion, 1}) == 0) continue;
      if (completion.event != dat::Event::kReceive || !completion.status.ok()) continue;
      const std::byte* at = memory_.data() + completion.cookie * kBuffer;
      received_.emplace_back(at, at + completion.size_bytes);
    }
    return done();
  }
  void Send(const std::vector<std::byte>& message) {
    const uint64_t slot = next_send_++ % 8;
    std::memcpy(memory_.data() + slot * kBuffer, message.data(), message.size());
    const dat::Segment segment{memory_.data() + slot * kBuffer,
                               static_cast<uint32_t>(message.size()), region_.get()};
    ASSERT_TRUE(endpoint_->PostSend(slot, {&segment, 1}, {}).ok());
  }

  // Binds the channel. `grant` changes the reply of the server, which otherwise grants what the
  // client requested.
  template <class Grant>
  absl::Status Bind(Grant grant) {
    wire::ConnectBindArgs asked;
    asked.session_id = wire::OpaqueFromUint64<wire::SessionId>(77);
    BackControl::Propose(asked);
    std::optional<absl::Status> result;
    Start(Note(channel_->Bind(asked, Loop::Now() + kPatience), &result));
    EXPECT_TRUE(Until([&] { return !received_.empty(); }));
    const auto header = wire::DecodeRequestHeader(received_[0], std::nullopt);
    wire::ConnectBindArgs args;
    EXPECT_EQ(wire::DecodeArgs(received_[0], wire::ByteOrder::kLittle, args), DafsStatus::kOk);
    EXPECT_EQ(args.channel_use, wire::ChannelUse::kBackControl);
    received_.clear();
    wire::ConnectBindRes res;
    res.max_request_size = args.max_request_size;
    res.max_response_size = args.max_response_size;
    res.max_requests = args.max_requests;
    grant(res);
    std::vector<std::byte> out(256);
    out.resize(*wire::EncodeResponse(wire::ResponseTo(header->header, DafsStatus::kOk, 1), res,
                                     wire::ByteOrder::kLittle, out));
    Send(out);
    EXPECT_TRUE(Until([&] { return result.has_value(); }));
    return result.value_or(absl::UnknownError("not bound"));
  }
  static Task<void> Note(Task<absl::Status> task, std::optional<absl::Status>* result) {
    result->emplace(co_await task);
  }

  template <class Args>
  std::vector<std::byte> Encode(const Args& args, wire::RequestHeader header = {}) {
    std::vector<std::byte> out(kBuffer);
    out.resize(*wire::EncodeRequest(header, args, wire::ByteOrder::kLittle, out));
    return out;
  }
  // Returns the status of the reply to `message`. Checks that the reply grants all credits.
  std::string Ask(const std::vector<std::byte>& message) {
    Send(message);
    if (!Until([&] { return !received_.empty(); })) return "none";
    const auto answer = wire::DecodeResponseHeader(received_[0], wire::ByteOrder::kLittle);
    received_.clear();
    if (!answer.ok()) return "rubbish";
    EXPECT_EQ(answer->header.target_nreq, BackControl::kRequests);
    return std::string(wire::Name(answer->header.status));
  }
  static wire::BcChangedArgs Changes(size_t count, uint32_t what = wire::kChangedNames) {
    wire::BcChangedArgs args;
    args.changed.resize(count);
    for (wire::Changed& change : args.changed) {
      change.filehandle.fileid.bytes[0] = 7;
      change.what = what;
    }
    return args;
  }
  static wire::BcBatchCompletionArgs Completions(uint64_t first, size_t count) {
    wire::BcBatchCompletionArgs args;
    args.completions.resize(count);
    for (size_t i = 0; i < count; ++i) args.completions[i].request_id = first + i;
    return args;
  }

  std::unique_ptr<dat::Provider> provider_ = dat::NewIwarpProvider();
  ReceiveCounter counter_{*provider_};
  std::unique_ptr<dat::Listener> listener_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<dat::Domain> domain_;
  std::unique_ptr<dat::Domain> peer_domain_;
  std::vector<std::byte> memory_;
  std::unique_ptr<dat::Region> region_;
  std::unique_ptr<dat::Endpoint> endpoint_;
  std::unique_ptr<BackControl> channel_;
  std::vector<std::vector<std::byte>> received_;
  std::vector<uint64_t> reported_;
  std::vector<wire::Changed> changed_;
  bool holds_ = false;
  bool holds_write_ = false;
  std::vector<absl::AnyInvocable<void()>> held_;
  std::vector<wire::BcLockFreeArgs> free_;
  std::optional<absl::Status> lost_;
  uint64_t next_send_ = 0;
};

// Shows DAFS-6.6.1-01, DAFS-6.6.3-02, DAFS-4.3-01, DAFS-3.1.2.3.2-01, DAFS-3.2.6.1-01,
// DAFS-3.2.6.3-05, DAFS-3.2.6.4.2-02, DAFS-3.2.6.4.2-03: each reply states the target.
TEST_F(BackControlTest, EveryDirectiveIsAnsweredImmediately) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  EXPECT_EQ(Ask(Encode(wire::BcNullArgs())), "DAFS_STATUS_OK");
  EXPECT_EQ(Ask(Encode(wire::BcGetattrArgs())), "DAFSERR_BADHANDLE");
  EXPECT_EQ(Ask(Encode(wire::BcRecallArgs())), "DAFSERR_BADHANDLE");
  EXPECT_EQ(Ask(Encode(Completions(5, 3))), "DAFS_STATUS_OK");
  EXPECT_THAT(reported_, testing::ElementsAre(5, 6, 7));
  // Invalid requests and other procedures do not reach the handler.
  EXPECT_EQ(Ask(Encode(wire::NullArgs())), "DAFSERR_NOTSUPP");
  EXPECT_EQ(Ask(Encode(wire::ConnectBindArgs())), "DAFSERR_NOTSUPP");
  wire::RequestHeader chained;
  chained.chain_flags = wire::kChfForw;
  EXPECT_EQ(Ask(Encode(Completions(8, 1), chained)), "DAFSERR_CHAIN_FORM");
  wire::RequestHeader beyond;
  beyond.stream_id = BackControl::kRequests;
  EXPECT_EQ(Ask(Encode(Completions(8, 1), beyond)), "DAFSERR_INVAL");
  std::vector<std::byte> none = Encode(Completions(8, 1));
  std::memset(none.data() + 40, 0, 4);  // completions are required
  EXPECT_EQ(Ask(none), "DAFSERR_INVAL");
  std::vector<std::byte> far = Encode(Completions(8, 1));
  std::memset(far.data() + 40, 0x7f, 3);
  EXPECT_EQ(Ask(far), "DAFSERR_INVAL");
  EXPECT_EQ(reported_.size(), 3u);
  EXPECT_FALSE(lost_);
}

// Shows DAFS-6.6.3-01: the client sends all modified data at once, so it has changed no attribute
// that the server does not know, and returns none, whatever the server requests.
TEST_F(BackControlTest, HolderOfAWriteDelegationReturnsOnlyAttributesThatItMayHaveChanged) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  holds_write_ = true;
  for (const uint64_t requested :
       {wire::kFattrAll, wire::kFattrChange | wire::kFattrTimeModify | wire::kFattrObjectSize}) {
    wire::BcGetattrArgs args;
    args.attr_request_bitmap = requested;
    Send(Encode(args));
    ASSERT_TRUE(Until([&] { return !received_.empty(); }));
    const auto answer = wire::DecodeResponseHeader(received_[0], wire::ByteOrder::kLittle);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->header.status, DafsStatus::kOk);
    wire::BcGetattrRes res;
    ASSERT_TRUE(wire::DecodeRes(received_[0], wire::ByteOrder::kLittle, DafsStatus::kOk, res).ok());
    EXPECT_EQ(res.obj_attributes.valid, 0u);
    received_.clear();
  }
}

// Shows DAFS-3.2.6.3-08 (the client): the peer may send as many requests as the client grants, each
// of the maximum size.
TEST_F(BackControlTest, AllCreditsCanBeUsedAtOnce) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_GE(counter_.posted, BackControl::kRequests);
    for (uint32_t i = 0; i < BackControl::kRequests; ++i) {
      wire::RequestHeader header;
      header.stream_id = static_cast<uint16_t>(i);
      const auto message = Encode(Completions(i * 1000, 168), header);
      EXPECT_LE(message.size(), BackControl::kMaxRequest);
      Send(message);
    }
    // The peer has receives for one round; CONNECT_BIND used one.
    if (round == 1) break;
    EXPECT_TRUE(Until([&] { return received_.size() == BackControl::kRequests; }));
    received_.clear();
    EXPECT_EQ(reported_.size(), 168 * size_t{BackControl::kRequests});
  }
}

// Shows DAFS-3.2.6.3-09 (the client's part): a new receive replaces that of the request.
TEST_F(BackControlTest, ReceiveIsPostedBeforeEachResponse) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  const uint32_t receives = counter_.receives_at_sends.back();
  for (uint32_t count = 1; count <= BackControl::kRequests; ++count) {
    EXPECT_EQ(Ask(Encode(Completions(count, 1))), "DAFS_STATUS_OK");
    EXPECT_EQ(counter_.receives_at_sends.back(), receives + count);
  }
}

// Each reply grants a credit for each receive, also to a server that started with fewer.
TEST_F(BackControlTest, RepliesGrantCreditsToServerThatRequestedFewer) {
  ASSERT_TRUE(Bind([](auto& res) { res.max_requests = 1; }).ok());
  for (const uint32_t stream : {0u, BackControl::kRequests - 1}) {
    wire::RequestHeader header;
    header.stream_id = static_cast<uint16_t>(stream);
    EXPECT_EQ(Ask(Encode(Completions(stream, 1), header)), "DAFS_STATUS_OK");
  }
  EXPECT_THAT(reported_, testing::ElementsAre(0, BackControl::kRequests - 1));
}

// Shows DAFS-6.2.5-03: a grant above the requested number is invalid.
TEST_F(BackControlTest, GrantAboveTheRequestedNumberIsRejected) {
  EXPECT_TRUE(absl::IsDataLoss(Bind([](auto& res) { ++res.max_requests; })));
}
TEST_F(BackControlTest, GrantOfZeroCreditsIsRejected) {
  EXPECT_TRUE(absl::IsDataLoss(Bind([](auto& res) { res.max_requests = 0; })));
}

TEST_F(BackControlTest, InvalidMessageEndsTheChannel) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  Send(std::vector<std::byte>(64, std::byte{0x5a}));
  EXPECT_TRUE(Until([&] { return lost_.has_value(); }));
  EXPECT_TRUE(absl::IsDataLoss(*lost_)) << *lost_;
}

TEST_F(BackControlTest, AnnouncedChangeIsAnsweredWhenTheHandlerDoes) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  holds_ = true;
  wire::RequestHeader header;
  for (header.stream_id = 0; header.stream_id < BackControl::kRequests; ++header.stream_id) {
    Send(Encode(Changes(2), header));
  }
  EXPECT_TRUE(Until([&] { return held_.size() == BackControl::kRequests; }));
  EXPECT_EQ(changed_.size(), 2 * size_t{BackControl::kRequests});
  EXPECT_TRUE(received_.empty());
  for (size_t i = held_.size(); i-- > 0;) held_[i]();  // in any order
  EXPECT_TRUE(Until([&] { return received_.size() == BackControl::kRequests; }));
  const auto first = wire::DecodeResponseHeader(received_[0], wire::ByteOrder::kLittle);
  EXPECT_EQ(first->header.stream_id, BackControl::kRequests - 1);
  EXPECT_EQ(first->header.status, DafsStatus::kOk);
  EXPECT_FALSE(lost_);
}

TEST_F(BackControlTest, MoreAnnouncedChangesThanCreditsEndTheChannel) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  holds_ = true;
  for (uint32_t i = 0; i < BackControl::kRequests; ++i) Send(Encode(Changes(1)));
  EXPECT_TRUE(Until([&] { return held_.size() == BackControl::kRequests; }));
  Send(Encode(Changes(1)));
  EXPECT_TRUE(Until([&] { return lost_.has_value(); }));
  held_[0]();  // has no effect
  channel_.reset();
  held_[1]();
}

// WIRE 9.6: nothing has ended after INVAL.
TEST_F(BackControlTest, InvalidAnnouncementReachesNoHandler) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  wire::BcChangedArgs last = Changes(3);
  last.changed[2].what = 8 | wire::kChangedAttributes;
  EXPECT_EQ(Ask(Encode(last)), "DAFSERR_INVAL");
  EXPECT_EQ(Ask(Encode(Changes(1, 0))), "DAFSERR_INVAL");
  std::vector<std::byte> none = Encode(Changes(1));
  std::memset(none.data() + 40, 0, 4);
  EXPECT_EQ(Ask(none), "DAFSERR_INVAL");
  // The array begins with its count.
  std::vector<std::byte> many = Encode(Changes(1));
  uint32_t heap = 0;
  std::memcpy(&heap, many.data() + 40, 4);
  ASSERT_LT(heap, many.size());
  const auto count = std::find(many.begin() + 48, many.end(), std::byte{1});
  ASSERT_NE(count, many.end());
  *count = std::byte{65};
  EXPECT_EQ(Ask(many), "DAFSERR_INVAL");
  EXPECT_TRUE(changed_.empty());
}

TEST_F(BackControlTest, FreeLockIsReportedAndAnsweredAtOnce) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  wire::BcLockFreeArgs args;
  args.filehandle.fileid.bytes[0] = 7;
  args.offset = 100;
  args.length = 20;
  EXPECT_EQ(Ask(Encode(args)), "DAFS_STATUS_OK");
  EXPECT_THAT(free_, testing::ElementsAre(args));
}

TEST_F(BackControlTest, DirectivesWithoutAHandlerAreAnswered) {
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  channel_->OnDirective(nullptr);
  EXPECT_EQ(Ask(Encode(Changes(1))), "DAFS_STATUS_OK");
  EXPECT_EQ(Ask(Encode(wire::BcLockFreeArgs())), "DAFS_STATUS_OK");
}

// The handler may destroy the session, and the channel with it.
TEST_F(BackControlTest, ChannelMayBeDestroyedWithinADirective) {
  struct Killer final : BackControlHandler {
    void OnBatchCompletion(const std::vector<wire::CompletionNotification>&) override {
      std::unique_ptr<BackControl> going = std::move(*channel);
      going->Kill(absl::CancelledError("test"));
    }
    std::unique_ptr<BackControl>* channel;
  } killer;
  ASSERT_TRUE(Bind([](auto&) {}).ok());
  killer.channel = &channel_;
  channel_->OnDirective(&killer);
  Send(Encode(Completions(1, 1)));
  EXPECT_TRUE(Until([&] { return channel_ == nullptr; }));
}

}  // namespace
}  // namespace dafs::client
