// A scripted client and a server of ours: the server's answers to calls, right and wrong.
#include "wire/rpcrdma/responder.h"

#include <gtest/gtest.h>

#include "tests/wire/rpcrdma/hex.h"
#include "tests/wire/rpcrdma/rig.h"

namespace dafs::rpcrdma {
namespace {

using testing::CallMessage;
using testing::HeaderOf;
using testing::ReplyMessage;
using testing::Script;

class RpcRdmaServer : public testing::Rig {
 protected:
  // The error that the server answers to `header`; a failure if it answers with none.
  ErrorBody ErrorFor(const Header& header, const Bytes& payload = CallMessage(5)) {
    const size_t handled = calls_.size();
    const Script::Message* const answer = Exchange(header, payload, Proc::kError);
    if (answer == nullptr) {
      ADD_FAILURE() << "no error";
      return {};
    }
    EXPECT_EQ(answer->header.xid, header.xid);
    EXPECT_EQ(answer->header.version, header.version);
    EXPECT_EQ(answer->header.credits, 8u);
    EXPECT_TRUE(answer->payload.empty());
    EXPECT_EQ(calls_.size(), handled);
    return answer->header.error;
  }
  bool Works() {
    return Exchange(HeaderOf(Proc::kMessage, 99), CallMessage(99), Proc::kMessage) != nullptr;
  }
  static WriteChunk Chunk(size_t segments, uint32_t length = 16) {
    return WriteChunk(segments, Segment{0x77, length, 0});
  }
};

// Shows RPCRDMA2-7.2.4-02, RPCRDMA2-7.2.4-01, RPCRDMA2-7.2.1-02, RPCRDMA2-7.2.2-04.
TEST_F(RpcRdmaServer, AnUnknownProcedureIsAnError) {
  ConnectScript();
  EXPECT_EQ(ErrorFor(HeaderOf(static_cast<Proc>(10), 5)).code, ErrorCode::kInvalidProcedure);
  EXPECT_TRUE(Works());
}

// Shows RPCRDMA2-7.2.4-03, RPCRDMA2-7.2.1-01, RPCRDMA2-7.2.2-02.
TEST_F(RpcRdmaServer, AHeaderThatCannotBeParsedIsAnErrorAndNoCall) {
  ConnectScript();
  const size_t before = client_script_->Count(Proc::kError);
  Bytes cut = EncodeHeader(HeaderOf(Proc::kMessage, 5));
  cut.resize(cut.size() - 4);
  ASSERT_TRUE(client_script_->channel->Send(cut, {}).ok());
  ASSERT_TRUE(Until([&] { return client_script_->Count(Proc::kError) > before; }));
  EXPECT_EQ(client_script_->Last(Proc::kError)->header.error.code, ErrorCode::kBadXdr);

  EXPECT_EQ(ErrorFor(HeaderOf(Proc::kMessage, 5), {}).code, ErrorCode::kBadXdr);
  EXPECT_EQ(ErrorFor(HeaderOf(Proc::kMessage, 5), ReplyMessage(5)).code, ErrorCode::kBadXdr);
  // No position-zero chunk, one in an inline message, and one outside of the message.
  EXPECT_EQ(ErrorFor(HeaderOf(Proc::kNoMessage, 5), {}).code, ErrorCode::kBadXdr);
  Header zero = HeaderOf(Proc::kMessage, 5);
  zero.chunks.reads = {{0, {1, 4, 0}}};
  EXPECT_EQ(ErrorFor(zero).code, ErrorCode::kBadXdr);
  Header outside = HeaderOf(Proc::kMessage, 5);
  outside.chunks.reads = {{4000, {1, 4, 0}}};
  EXPECT_EQ(ErrorFor(outside).code, ErrorCode::kBadXdr);
  EXPECT_TRUE(calls_.empty());
  EXPECT_TRUE(Works());
}

TEST_F(RpcRdmaServer, Version1HasOneErrorForAllOfThese) {
  ConnectScript();
  Header header = HeaderOf(Proc::kMessage, 5);
  header.version = 1;
  header.chunks.reads = {{4, {1, 4, 0}}, {8, {1, 4, 0}}, {12, {1, 4, 0}}};
  EXPECT_EQ(ErrorFor(header).code, ErrorCode::kBadXdr);
}

// Shows RPCRDMA2-8-04: also by a server that speaks version 2.
TEST_F(RpcRdmaServer, AnUnknownVersionIsAnErrorWithTheRange) {
  ConnectScript();
  Header header = HeaderOf(Proc::kMessage, 5);
  header.version = 3;
  ASSERT_TRUE(client_script_->channel->Send(EncodeHeader(header), CallMessage(5)).ok());
  ASSERT_TRUE(Until([&] { return client_script_->got.size() == 1; }));
  const Script::Message& answer = client_script_->got[0];
  EXPECT_EQ(answer.header.xid, 5u);
  EXPECT_EQ(answer.header.version, 3u);
  // RDMA2_ERROR is not decoded in an unknown version; its body follows.
  EXPECT_EQ(answer.header.proc, Proc::kError);
  EXPECT_EQ(answer.payload, testing::Hex("00000001 00000001 00000002"));
  EXPECT_TRUE(Works());
}

// Shows RPCRDMA2-7.2.4-04, RPCRDMA2-7.2.4-07, RPCRDMA2-7.2.4-10.
TEST_F(RpcRdmaServer, ChunksBeyondTheLimitsAreErrorsWithTheLimit) {
  server_options_.max_read_chunks = 1;
  server_options_.max_write_chunks = 2;
  server_options_.max_segments = 3;
  ConnectScript();
  Header reads = HeaderOf(Proc::kMessage, 5);
  reads.chunks.reads = {{4, {1, 4, 0}}, {12, {1, 4, 0}}};
  EXPECT_EQ(ErrorFor(reads), (ErrorBody{.code = ErrorCode::kReadChunks, .most = 1}));
  Header writes = HeaderOf(Proc::kMessage, 5);
  writes.chunks.writes = {Chunk(1), Chunk(1), Chunk(1)};
  EXPECT_EQ(ErrorFor(writes), (ErrorBody{.code = ErrorCode::kWriteChunks, .most = 2}));
  const ErrorBody segments = {.code = ErrorCode::kSegments, .most = 3};
  writes.chunks.writes = {Chunk(4)};
  EXPECT_EQ(ErrorFor(writes), segments);
  Header reply = HeaderOf(Proc::kMessage, 5);
  reply.chunks.reply = Chunk(4);
  EXPECT_EQ(ErrorFor(reply), segments);
  reads.chunks.reads = {{4, {1, 4, 0}}, {4, {1, 4, 4}}, {4, {1, 4, 8}}, {4, {1, 4, 12}}};
  EXPECT_EQ(ErrorFor(reads), segments);
  EXPECT_TRUE(Works());
}

// Shows RPCRDMA2-7.2.4-08.
TEST_F(RpcRdmaServer, WithoutWriteChunksAReplyChunkIsRequested) {
  server_options_.max_write_chunks = 0;
  ConnectScript();
  Header header = HeaderOf(Proc::kMessage, 5);
  header.chunks.writes = {Chunk(2, 5000)};
  const ErrorBody error = ErrorFor(header);
  EXPECT_EQ(error.code, ErrorCode::kReplyResource);
  EXPECT_GE(error.length_needed, 10000u);
}

TEST_F(RpcRdmaServer, HugeLengthsAreErrors) {
  ConnectScript();
  Header header = HeaderOf(Proc::kNoMessage, 5);
  header.chunks.reads = {{0, {1, 0xffffffff, 0}}, {0, {1, 0xffffffff, 0}}};
  EXPECT_EQ(ErrorFor(header, {}).code, ErrorCode::kSystem);
  header = HeaderOf(Proc::kMessage, 5);
  header.chunks.reads = {{16, {1, 0xffffffff, 0}}};
  EXPECT_EQ(ErrorFor(header).code, ErrorCode::kBadXdr);
  // A write chunk may be as long as it likes: only what is written counts.
  header = HeaderOf(Proc::kMessage, 6);
  header.chunks.writes = {WriteChunk{{1, 0xffffffff, 0}}};
  const Script::Message* const reply = Exchange(header, CallMessage(6), Proc::kMessage);
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(reply->header.chunks.writes[0][0].length, 0u);
}

// Shows RPCRDMA2-7.2.4-11: the first that is too short.
TEST_F(RpcRdmaServer, AShortWriteChunkIsNamed) {
  ConnectScript();
  handler_ = [](const Request& request) -> absl::StatusOr<Response> {
    Response response{ReplyMessage(testing::XidOf(request.message))};
    for (int i = 0; i < 2; ++i) {
      response.results.push_back({static_cast<uint32_t>(response.message.size()), Bytes(100)});
    }
    return response;
  };
  Header header = HeaderOf(Proc::kMessage, 5);
  header.chunks.writes = {Chunk(2, 50), Chunk(1, 99)};
  EXPECT_EQ(ErrorFor(header),
            (ErrorBody{.code = ErrorCode::kWriteResource, .chunk_index = 2, .length_needed = 100}));
}

// Shows RPCRDMA2-7.2.4-12.
TEST_F(RpcRdmaServer, AShortReplyChunkIsAnErrorWithTheLengthNeeded) {
  ConnectScript();
  handler_ = [](const Request& request) -> absl::StatusOr<Response> {
    return Response{ReplyMessage(testing::XidOf(request.message), 10000)};
  };
  const ErrorBody needed = {.code = ErrorCode::kReplyResource,
                            .length_needed = static_cast<uint32_t>(ReplyMessage(5, 10000).size())};
  EXPECT_EQ(ErrorFor(HeaderOf(Proc::kMessage, 5)), needed);
  Header header = HeaderOf(Proc::kMessage, 5);
  header.chunks.reply = Chunk(2, 5000);
  EXPECT_EQ(ErrorFor(header), needed);
}

// Shows RPCRDMA2-7.2.3-02, RPCRDMA2-7.2.3-03, RPCRDMA2-4-03: the handle says that the requester's
// end can receive it.
TEST_F(RpcRdmaServer, InvalidatesExactlyTheHandleThatItMay) {
  for (const bool uses : {true, false}) {
    server_options_.remote_invalidation = uses;
    ConnectScript();
    auto memory =
        NewMemory(client_script_->channel->domain(), Bytes(64), dat::Access::kWindows).All();
    const auto invalidated = [&](uint32_t handle, uint32_t invalidate) {
      Header header = HeaderOf(Proc::kMessage, 5);
      header.chunks.writes = {WriteChunk{{0x55, 8, 0}, {handle, 64, 0}}};
      header.chunks.invalidate = invalidate;
      const Script::Message* const reply = Exchange(header, CallMessage(5), Proc::kMessage);
      return reply == nullptr ? std::optional<uint32_t>(0) : reply->invalidated;
    };
    dat::Endpoint& endpoint = client_script_->channel->endpoint();
    const uint32_t window = endpoint.PostBind(memory, dat::Access::kRemoteWrite)->context;
    EXPECT_EQ(invalidated(window, 0), std::nullopt);
    EXPECT_EQ(invalidated(0x44, window), std::nullopt);  // not a handle of the header
    EXPECT_EQ(invalidated(window, window), uses ? std::optional(window) : std::nullopt);
    EXPECT_TRUE(Works());
    memory_.back()->region.reset();
    memory_.clear();
    client_script_.reset();
    server_.reset();
  }
}

// Shows RPCRDMA2-4-04: the server is the requester.
TEST_F(RpcRdmaServer, ABackwardCallCanAskForInvalidation) {
  ConnectScript();
  ASSERT_TRUE(Works());
  Header properties = HeaderOf(Proc::kConnectionProperties, 1);
  properties.properties.values = {BackwardValue(BackwardSupport::kGeneral)};
  client_script_->Send(properties);
  ASSERT_TRUE(Until([&] { return server_->properties().announced().has_value(); }));
  client_script_->answer = [&](const Script::Message& call) {
    if (call.header.proc != Proc::kMessage) return;
    EXPECT_NE(call.header.chunks.invalidate, 0u);
    client_script_->Send(ReplyTo(call), ReplyMessage(call.header.xid),
                         call.header.chunks.invalidate);
  };
  const auto& window = NewMemory(server_->domain(), Bytes(80), dat::Access::kWindows);
  EXPECT_TRUE(Run(*server_, {.message = CallMessage(2), .results = {window.All()}}).ok());
}

TEST_F(RpcRdmaServer, MoreCallsThanGrantedEndTheConnection) {
  server_options_.credits = 2;
  ConnectScript();
  const auto memory =
      NewMemory(client_script_->channel->domain(), Bytes(4096), dat::Access::kRemoteRead).All();
  for (uint32_t xid = 1; xid <= 3; ++xid) {
    Header header = HeaderOf(Proc::kNoMessage, xid);
    header.chunks.reads = {{0, {memory.region->context(), 4096, memory.region->target_address()}}};
    client_script_->Send(header);
  }
  // The server sees all three before the client's end answers the RDMA reads of the first two.
  ASSERT_TRUE(Until([&] { return !server_->status().ok() || calls_.size() == 3; }));
  if (calls_.size() < 3) {
    EXPECT_TRUE(absl::IsFailedPrecondition(server_->status())) << server_->status();
  }
}

// Operations that are optional.

// Shows RPCRDMA2-5.1-02, RPCRDMA2-6.3-02, RPCRDMA2-6.3-03: 1 to 4 are the property operations of
// the text.
TEST_F(RpcRdmaServer, UnknownOptionalOperationsAreErrors) {
  ConnectScript();
  ASSERT_TRUE(Works());
  for (const uint32_t type : {1u, 2u, 3u, 4u, 4711u}) {
    Header header = HeaderOf(Proc::kOptional, 40 + type);
    header.optional.type = type;
    EXPECT_EQ(ErrorFor(header, {}).code, ErrorCode::kInvalidOption);
    EXPECT_EQ(ErrorFor(header, CallMessage(3)).code, ErrorCode::kInvalidOption);
  }
  // An unknown reply is dropped, because errors flow to requesters only.
  Header reply = HeaderOf(Proc::kOptional, 3);
  reply.optional.direction = Direction::kReply;
  const size_t errors = client_script_->Count(Proc::kError);
  client_script_->Send(reply);
  EXPECT_TRUE(Works());
  EXPECT_EQ(client_script_->Count(Proc::kError), errors);
}

// Shows RPCRDMA2-5.1-01, RPCRDMA2-7.2.1-03.
TEST_F(RpcRdmaServer, AKnownOptionalOperationTakesAllPartOrNoneOfAMessage) {
  ConnectScript();
  std::vector<size_t> payloads;
  server_->set_optional_handler([&](const OptionalBody& body, std::span<const std::byte> payload) {
    if (body.type == 77) payloads.push_back(payload.size());
    return body.type == 77;
  });
  Header header = HeaderOf(Proc::kOptional, 5);
  header.optional.type = 77;
  const Bytes call = CallMessage(5);
  client_script_->Send(header, call);
  client_script_->Send(header, Bytes(call.begin(), call.begin() + 12));
  client_script_->Send(header);
  ASSERT_TRUE(Until([&] { return payloads.size() == 3; }));
  EXPECT_EQ(payloads, (std::vector<size_t>{call.size(), 12, 0}));
  EXPECT_EQ(ErrorFor(header, ReplyMessage(5)).code, ErrorCode::kBadXdr);  // CALL with a reply
  header.optional.type = 78;
  EXPECT_EQ(ErrorFor(header, {}).code, ErrorCode::kInvalidOption);
}

// Shows RPCRDMA2-7.2.2-03.
TEST_F(RpcRdmaServer, TheDirectionOfAnOptionalOperationIsThatOfItsMessage) {
  ConnectScript();
  EXPECT_FALSE(server_->SendOptional(77, {}, {}).ok());  // no version is agreed
  ASSERT_TRUE(Works());
  const auto direction = [&](const Bytes& payload) {
    const size_t before = client_script_->Count(Proc::kOptional);
    EXPECT_TRUE(server_->SendOptional(77, {}, payload).ok());
    EXPECT_TRUE(Until([&] { return client_script_->Count(Proc::kOptional) > before; }));
    return client_script_->Last(Proc::kOptional)->header.optional.direction;
  };
  EXPECT_EQ(direction(CallMessage(3)), Direction::kCall);
  EXPECT_EQ(direction(ReplyMessage(3)), Direction::kReply);
  EXPECT_EQ(direction({}), Direction::kReply);  // a server is the responder
}

}  // namespace
}  // namespace dafs::rpcrdma
