// A client of ours and a scripted server: what the client sends, and what it makes of answers that
// a correct server never gives.
#include "wire/rpcrdma/requester.h"

#include <gtest/gtest.h>

#include "tests/wire/rpcrdma/rig.h"

namespace dafs::rpcrdma {
namespace {

using testing::CallMessage;
using testing::Pattern;
using testing::ReplyMessage;
using testing::Script;

class RpcRdmaClient : public testing::Rig {
 protected:
  using Answers = std::function<void(const Script::Message&)>;

  // Connects, and completes one call, so that the version is agreed and there are credits.
  void Begin() {
    ConnectToScript();
    AnswerWith([](const Script::Message&) { return std::nullopt; });
    ASSERT_TRUE(Run({.message = CallMessage(1000)}).ok());
    ASSERT_TRUE(Until([&] { return server_script_->Count(Proc::kConnectionProperties) == 1; }));
  }
  // Answers each call: by `answer`, or by an ordinary reply if that returns nothing.
  void AnswerWith(std::function<std::optional<Header>(const Script::Message&)> answer) {
    server_script_->answer = [this, answer](const Script::Message& call) {
      if (call.header.proc != Proc::kMessage && call.header.proc != Proc::kNoMessage) return;
      calls_seen_.push_back(call);
      if (const auto header = answer(call)) {
        const bool has_message = header->proc == Proc::kMessage;
        server_script_->Send(*header, has_message ? ReplyMessage(header->xid) : Bytes());
      } else {
        server_script_->Send(ReplyTo(call), ReplyMessage(call.header.xid));
      }
    };
  }
  // The result of a call that the server answers with `error`, once. Later attempts succeed.
  absl::StatusOr<Reply> RunWithError(Call call, const ErrorBody& error) {
    auto times = std::make_shared<int>(0);
    AnswerWith([error, times](const Script::Message& seen) -> std::optional<Header> {
      if ((*times)++ == 0) return ErrorTo(seen, error);
      return std::nullopt;
    });
    return Run(std::move(call));
  }
  const Header& LastCall() const { return calls_seen_.back().header; }

  std::vector<Script::Message> calls_seen_;
};

// Shows RPCRDMA2-8-02: also if the call has more than 1024 bytes.
TEST_F(RpcRdmaClient, TheFirstMessageIsOfVersion2AndShort) {
  for (const size_t bytes : {0u, 3000u}) {
    ConnectToScript();
    client_->Start({.message = CallMessage(1, bytes)}, [](absl::StatusOr<Reply>) {});
    ASSERT_TRUE(Until([&] { return !server_script_->got.empty(); }));
    EXPECT_EQ(server_script_->got[0].header.version, 2u);
    EXPECT_LE(server_script_->got[0].size, 1024u);
    EXPECT_EQ(server_script_->got[0].header.proc, bytes == 0 ? Proc::kMessage : Proc::kNoMessage);
    client_.reset();
    server_script_.reset();
  }
}

// Shows RPCRDMA2-8-01.
TEST_F(RpcRdmaClient, OneCallIsOutstandingUntilThereAreCredits) {
  ConnectToScript();
  size_t done = 0;
  for (uint32_t xid = 1; xid <= 5; ++xid) {
    client_->Start({.message = CallMessage(xid)}, [&](absl::StatusOr<Reply> reply) {
      EXPECT_TRUE(reply.ok()) << reply.status();
      ++done;
    });
  }
  ASSERT_TRUE(Until([&] { return server_script_->got.size() == 1; }));
  for (int turn = 0; turn < 50; ++turn) loop_->RunOnce(absl::Milliseconds(1));
  EXPECT_EQ(server_script_->got.size(), 1u);
  const Script::Message first = server_script_->got[0];
  AnswerWith([](const Script::Message&) { return std::nullopt; });
  server_script_->Send(ReplyTo(first, 3), ReplyMessage(1));
  ASSERT_TRUE(Until([&] { return done == 5; }));
}

// Shows RPCRDMA2-8-06.
TEST_F(RpcRdmaClient, AServerThatDropsTheFirstMessageIsTriedInVersion1) {
  ConnectToScript();
  EXPECT_EQ(VersionForRetry(*client_, client_options_), 2u);
  server_script_->answer = [&](const Script::Message& call) {
    if (server_script_->got.size() > 1) return;
    server_script_->Send(ErrorTo(call, {.code = ErrorCode::kVersion, .low = 1, .high = 1}));
    server_script_->channel->endpoint().Disconnect();
  };
  EXPECT_TRUE(absl::IsUnavailable(Run({.message = CallMessage(1)}).status()));
  EXPECT_EQ(VersionForRetry(*client_, client_options_), 1u);
}

TEST_F(RpcRdmaClient, ARefusalThatNamesTheRefusedVersionOnlyEndsTheCall) {
  ConnectToScript();
  const auto reply =
      RunWithError({.message = CallMessage(1)}, {.code = ErrorCode::kVersion, .low = 2, .high = 9});
  EXPECT_TRUE(absl::IsUnimplemented(reply.status())) << reply.status();
}

TEST_F(RpcRdmaClient, AGrantOfNoCreditsIsAnError) {
  ConnectToScript();
  AnswerWith([](const Script::Message& call) { return ReplyTo(call, 0); });
  const auto reply = Run({.message = CallMessage(1)});
  EXPECT_TRUE(absl::IsFailedPrecondition(reply.status())) << reply.status();
  EXPECT_NE(reply.status().message().find("0 credits"), std::string::npos);
}

TEST_F(RpcRdmaClient, ACallWithoutAReplyEndsInTime) {
  ConnectToScript();
  const auto reply = Run({.message = CallMessage(1), .timeout = absl::Milliseconds(50)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(reply.status())) << reply.status();
  ASSERT_TRUE(Until([&] { return server_script_->ended.has_value(); }));
  // Later calls fail at once.
  EXPECT_TRUE(absl::IsDeadlineExceeded(Run({.message = CallMessage(2)}).status()));
}

TEST_F(RpcRdmaClient, RepliesWithOtherXidsAreNamedWhenTimeIsUp) {
  ConnectToScript();
  AnswerWith([](const Script::Message& call) {
    Header reply = ReplyTo(call);
    reply.xid += 1;
    return reply;
  });
  const auto reply = Run({.message = CallMessage(1), .timeout = absl::Milliseconds(200)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(reply.status())) << reply.status();
  EXPECT_NE(reply.status().message().find("1 replies named other XIDs"), std::string::npos)
      << reply.status();
}

TEST_F(RpcRdmaClient, WrongLengthsInAReplyAreRefused) {
  Begin();
  const auto& memory = NewMemory(client_->domain(), Bytes(100), dat::Access::kRemoteWrite);
  uint32_t xid = 1;
  for (const uint32_t length : {101u, 0xffffffffu}) {
    AnswerWith([length](const Script::Message& call) {
      Header reply = ReplyTo(call);
      reply.chunks.writes[0][0].length = length;
      return reply;
    });
    auto reply = Run({.message = CallMessage(++xid), .results = {memory.All()}});
    EXPECT_TRUE(absl::IsDataLoss(reply.status())) << reply.status();
    AnswerWith([length](const Script::Message& call) {
      Header wrong = ReplyTo(call);
      wrong.proc = Proc::kNoMessage;
      wrong.chunks.reply = WriteChunk{{1, length, 0}, {1, 65536, 0}};
      return wrong;
    });
    reply = Run({.message = CallMessage(++xid), .max_reply_bytes = 10000});
    EXPECT_TRUE(absl::IsDataLoss(reply.status())) << reply.status();
  }
  AnswerWith([](const Script::Message& call) {
    Header reply = ReplyTo(call);
    reply.chunks.writes.clear();
    return reply;
  });
  EXPECT_TRUE(
      absl::IsDataLoss(Run({.message = CallMessage(++xid), .results = {memory.All()}}).status()));
  AnswerWith([](const Script::Message&) { return std::nullopt; });
  EXPECT_TRUE(Run({.message = CallMessage(++xid)}).ok());
}

// Shows RPCRDMA2-7.2.4-06: one attempt only. RPCRDMA2-7.2.4-05: if it was in chunks.
TEST_F(RpcRdmaClient, ReadChunksThatAreTooManyAreSentInOnePiece) {
  Begin();
  calls_seen_.clear();
  const ErrorBody error = {.code = ErrorCode::kReadChunks, .most = 0};
  auto reply = RunWithError({.message = CallMessage(2, 8000)}, error);
  EXPECT_TRUE(absl::IsFailedPrecondition(reply.status())) << reply.status();
  EXPECT_EQ(calls_seen_.size(), 1u);
  const auto& memory = NewMemory(client_->domain(), Pattern(8000), dat::Access::kRemoteRead);
  reply = RunWithError({.message = CallMessage(3), .arguments = {{40, memory.All()}}}, error);
  EXPECT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(calls_seen_.size(), 3u);
  EXPECT_EQ(calls_seen_[1].header.chunks.reads[0].position, 40u);
  ASSERT_EQ(LastCall().chunks.reads.size(), 1u);
  EXPECT_EQ(LastCall().chunks.reads[0].position, 0u);
  EXPECT_EQ(LastCall().chunks.reads[0].target.length, CallMessage(3).size() + 8000);
}

// Shows RPCRDMA2-7.2.4-13, RPCRDMA2-7.2.4-09: the same XID and a reply chunk.
TEST_F(RpcRdmaClient, WriteChunksThatAreTooManyBecomeAReplyChunk) {
  Begin();
  const auto& memory = NewMemory(client_->domain(), Bytes(8000), dat::Access::kRemoteWrite);
  for (const ErrorBody& error :
       {ErrorBody{.code = ErrorCode::kWriteChunks, .most = 0},
        ErrorBody{.code = ErrorCode::kReplyResource, .length_needed = 9000}}) {
    calls_seen_.clear();
    const auto reply = RunWithError({.message = CallMessage(2), .results = {memory.All()}}, error);
    EXPECT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(calls_seen_.size(), 2u);
    EXPECT_EQ(LastCall().xid, 2u);
    EXPECT_TRUE(LastCall().chunks.writes.empty());
    ASSERT_TRUE(LastCall().chunks.reply.has_value());
    EXPECT_GE(LastCall().chunks.reply->front().length, 9000u);
  }
}

TEST_F(RpcRdmaClient, OtherErrorsEndTheCallWithTheirReason) {
  Begin();
  const auto& memory = NewMemory(client_->domain(), Bytes(80), dat::Access::kRemoteWrite);
  uint32_t xid = 1;
  for (const auto& [error, words] :
       {std::pair<ErrorBody, std::string>{{.code = ErrorCode::kSegments, .most = 7},
                                          "takes 7 segments"},
        {{.code = ErrorCode::kWriteResource, .chunk_index = 1, .length_needed = 90},
         "needs 90 bytes"},
        {{.code = ErrorCode::kBadXdr}, "RDMA2_ERR_BAD_XDR"},
        {{.code = ErrorCode::kInvalidProcedure}, "RDMA2_ERR_INVAL_PROC"},
        {{.code = ErrorCode::kInvalidOption}, "RDMA2_ERR_INVAL_OPTION"},
        {{.code = ErrorCode::kSystem}, "RDMA2_ERR_SYSTEM"},
        {{.code = ErrorCode::kVersion, .low = 3, .high = 4}, "takes 3 to 4"}}) {
    calls_seen_.clear();
    const auto reply =
        RunWithError({.message = CallMessage(++xid), .results = {memory.All()}}, error);
    EXPECT_FALSE(reply.ok());
    EXPECT_NE(reply.status().message().find(words), std::string::npos) << reply.status();
    EXPECT_EQ(calls_seen_.size(), 1u) << words;
  }
  AnswerWith([](const Script::Message&) { return std::nullopt; });
  EXPECT_TRUE(Run({.message = CallMessage(++xid)}).ok());
}

TEST_F(RpcRdmaClient, ErrorsOfOtherCallsAndUnknownErrorsEndNoCall) {
  Begin();
  Header error = testing::HeaderOf(Proc::kError, 4711);
  server_script_->Send(error);
  ASSERT_TRUE(Run({.message = CallMessage(2)}).ok());
  Bytes unknown = EncodeHeader(error);
  unknown.back() = std::byte{99};
  EXPECT_TRUE(server_script_->channel->Send(unknown, {}).ok());
  ASSERT_TRUE(Until([&] { return !client_->status().ok(); }));
  EXPECT_TRUE(absl::IsDataLoss(client_->status())) << client_->status();
}

// Remote invalidation.

// Shows RPCRDMA2-7.2.3-01, RPCRDMA2-4-02, RPCRDMA2-4-01.
TEST_F(RpcRdmaClient, NamesAWindowThatMayBeInvalidatedOrNone) {
  for (const bool wanted : {true, false}) {
    client_options_.remote_invalidation = wanted;
    Begin();
    const auto& lasting = NewMemory(client_->domain(), Bytes(80), dat::Access::kRemoteWrite);
    const auto& window = NewMemory(client_->domain(), Bytes(80), dat::Access::kWindows);
    ASSERT_TRUE(Run({.message = CallMessage(1), .results = {lasting.All()}}).ok());
    EXPECT_EQ(LastCall().chunks.invalidate, 0u);
    ASSERT_TRUE(Run({.message = CallMessage(2), .results = {lasting.All(), window.All()}}).ok());
    EXPECT_EQ(LastCall().chunks.invalidate, wanted ? LastCall().chunks.writes[1][0].handle : 0u);
    EXPECT_EQ(LastCall().chunks.writes[0][0].handle, lasting.region->context());
    for (auto& memory : memory_) memory->region.reset();
    memory_.clear();
    server_script_.reset();
    client_.reset();
  }
}

TEST_F(RpcRdmaClient, AWindowHasEndedWhenTheCallEnds) {
  for (const bool by_peer : {true, false}) {
    Begin();
    const auto& window = NewMemory(client_->domain(), Bytes(80), dat::Access::kWindows);
    server_script_->answer = [&](const Script::Message& call) {
      calls_seen_.push_back(call);
      server_script_->Send(ReplyTo(call), ReplyMessage(call.header.xid),
                           by_peer ? std::optional(call.header.chunks.invalidate) : std::nullopt);
    };
    ASSERT_TRUE(Run({.message = CallMessage(2), .results = {window.All()}}).ok());
    // A server that writes after its reply reaches nothing.
    const auto& late = NewMemory(server_script_->channel->domain(), Bytes(80), dat::Access::kLocal);
    const Segment stale = LastCall().chunks.writes[0][0];
    EXPECT_TRUE(server_script_->channel->Write(late.All(), stale).ok());
    server_script_->channel->endpoint().Flush();
    ASSERT_TRUE(Until([&] { return !client_->status().ok(); }));
    for (auto& memory : memory_) memory->region.reset();
    memory_.clear();
    server_script_.reset();
    client_.reset();
  }
}

TEST_F(RpcRdmaClient, InvalidatingOtherMemoryEndsTheConnection) {
  Begin();
  const auto& lasting = NewMemory(client_->domain(), Bytes(80), dat::Access::kRemoteWrite);
  server_script_->answer = [&](const Script::Message& call) {
    server_script_->Send(ReplyTo(call), ReplyMessage(call.header.xid),
                         call.header.chunks.writes[0][0].handle);
  };
  const auto reply = Run({.message = CallMessage(2), .results = {lasting.All()}});
  EXPECT_TRUE(absl::IsDataLoss(reply.status())) << reply.status();
}

TEST_F(RpcRdmaClient, GarbageEndsTheConnectionWithAReason) {
  for (const size_t bytes : {0u, 3u, 15u}) {
    Begin();
    EXPECT_TRUE(server_script_->channel->Send(Pattern(bytes), {}).ok());
    ASSERT_TRUE(Until([&] { return !client_->status().ok(); }));
    EXPECT_TRUE(absl::IsDataLoss(client_->status())) << client_->status();
    server_script_.reset();
    client_.reset();
  }
}

// Shows RPCRDMA2-7.2.2-04: no error flows to a responder, so the call ends here.
TEST_F(RpcRdmaClient, AReplyThatCannotBeDecodedEndsItsCall) {
  Begin();
  server_script_->answer = [&](const Script::Message& call) {
    const Bytes header = EncodeHeader(ReplyTo(call));
    EXPECT_TRUE(server_script_->channel->Send(std::span(header).first(header.size() - 4), {}).ok());
  };
  EXPECT_TRUE(absl::IsDataLoss(Run({.message = CallMessage(2)}).status()));
  server_script_->answer = [&](const Script::Message& call) {  // a reply without an RPC message
    server_script_->Send(ReplyTo(call), {});
  };
  EXPECT_TRUE(absl::IsDataLoss(Run({.message = CallMessage(3)}).status()));
  EXPECT_EQ(server_script_->Count(Proc::kError), 0u);
}

}  // namespace
}  // namespace dafs::rpcrdma
