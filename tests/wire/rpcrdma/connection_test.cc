// Calls between a client and a server of ours: sizes, chunks, invalidation, the reverse direction.
#include "wire/rpcrdma/connection.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/wire/rpcrdma/rig.h"

namespace dafs::rpcrdma {
namespace {

using testing::CallMessage;
using testing::Pattern;
using testing::ReplyMessage;

using RpcRdma = testing::Rig;

Bytes Whole(const Bytes& head, const Bytes& item, const Bytes& tail = {}) {
  Bytes whole = head;
  Append(whole, item);
  whole.resize(XdrPadded(whole.size()));
  Append(whole, tail);
  return whole;
}

// Shows RPCRDMA2-8-03, RPCRDMA2-7.2.2-02.
TEST_F(RpcRdma, ACallIsAnsweredInVersion2) {
  Connect();
  const auto reply = Run({.message = CallMessage(7)});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->message, ReplyMessage(7));
  EXPECT_EQ(calls_, std::vector<Bytes>{CallMessage(7)});
  EXPECT_EQ(client_->version(), 2u);
  EXPECT_EQ(server_->version(), 2u);
  EXPECT_EQ(client_->requester().granted(), server_options_.credits);
}

// Shows RPCRDMA2-8-04, RPCRDMA2-8-05, RPCRDMA2-8-07: on the same connection.
TEST_F(RpcRdma, AServerOfVersion1GetsVersion1) {
  server_options_.highest_version = 1;
  Connect();
  const auto reply = Run({.message = CallMessage(7)});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->message, ReplyMessage(7));
  EXPECT_EQ(client_->version(), 1u);
  ASSERT_TRUE(client_->requester().refused_version().has_value());
  EXPECT_EQ(client_->requester().refused_version()->high, 1u);
  EXPECT_EQ(calls_.size(), 1u);
}

TEST_F(RpcRdma, AClientOfVersion1IsServedInVersion1) {
  client_options_.highest_version = 1;
  Connect();
  ASSERT_TRUE(Run({.message = CallMessage(7)}).ok());
  EXPECT_EQ(server_->version(), 1u);
}

TEST_F(RpcRdma, WithoutACommonVersionTheCallFails) {
  server_options_.highest_version = 1;
  client_options_.lowest_version = 2;
  Connect();
  const auto reply = Run({.message = CallMessage(7)});
  EXPECT_TRUE(absl::IsUnimplemented(reply.status())) << reply.status();
}

// Shows RPCRDMA2-3.3-01, RPCRDMA2-3.3-03: 4096 bytes inline, no more until the peer says so, and in
// version 1 1024 bytes.
TEST_F(RpcRdma, LongCallsGoByAPositionZeroChunk) {
  client_options_.properties = server_options_.properties = false;
  for (const uint32_t version : {1u, 2u}) {
    client_options_.highest_version = version;
    Connect();
    ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
    const size_t limit = version == 2 ? 4096 - 36 : 1024 - 28;
    for (const size_t size : {limit, limit + 4}) {
      const Bytes message = CallMessage(2, size - CallMessage(2).size());
      ASSERT_TRUE(Run({.message = message}).ok());
      EXPECT_EQ(calls_.back(), message);
      EXPECT_EQ(requests_.back().was_long, size > limit) << version;
    }
    client_.reset();
    server_.reset();
  }
}

// Shows RPCRDMA2-6.2.1-02: sizes decide about a position-zero chunk, and about the use of a reply
// chunk.
TEST_F(RpcRdma, LongRepliesGoByAReplyChunk) {
  Connect();
  size_t bytes = 100;
  handler_ = [&](const Request& request) -> absl::StatusOr<Response> {
    return Response{ReplyMessage(testing::XidOf(request.message), bytes), {}};
  };
  ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
  bytes = 10000;
  auto reply = Run({.message = CallMessage(2), .max_reply_bytes = 20000});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->message, ReplyMessage(2, 10000));
  bytes = 8;  // fits without the reply chunk
  reply = Run({.message = CallMessage(3), .max_reply_bytes = 20000});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->message, ReplyMessage(3, 8));
}

TEST_F(RpcRdma, ArgumentsTravelInReadChunksAndKeepTheirPositions) {
  Connect();
  ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
  const Bytes head = CallMessage(2, 8), tail = Pattern(12, 9);
  for (const dat::Access access : {dat::Access::kRemoteRead, dat::Access::kWindows}) {
    for (const size_t size : {5001u, 100u}) {
      const Bytes data = Pattern(size, 3);
      const auto& memory = NewMemory(client_->domain(), data, access);
      Bytes reduced = head;
      Append(reduced, tail);
      const auto reply = Run(
          {.message = reduced, .arguments = {{static_cast<uint32_t>(head.size()), memory.All()}}});
      ASSERT_TRUE(reply.ok()) << reply.status();
      EXPECT_EQ(calls_.back(), Whole(head, data, tail));
      EXPECT_EQ(requests_.back().read_chunks, size > 4096 ? 1u : 0u);
    }
  }
}

TEST_F(RpcRdma, ALongCallCanHaveReadChunksToo) {
  Connect();
  ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
  const Bytes head = CallMessage(2, 30000), data = Pattern(20003, 3), tail = Pattern(4, 9);
  const auto& memory = NewMemory(client_->domain(), data, dat::Access::kWindows);
  Bytes reduced = head;
  Append(reduced, tail);
  ASSERT_TRUE(
      Run({.message = reduced, .arguments = {{static_cast<uint32_t>(head.size()), memory.All()}}})
          .ok());
  EXPECT_EQ(calls_.back(), Whole(head, data, tail));
  EXPECT_TRUE(requests_.back().was_long);
  EXPECT_EQ(requests_.back().read_chunks, 1u);
}

class Results : public testing::Rig {
 protected:
  // A handler whose reply has a result of `size` bytes at the end.
  void ReplyWithResult(size_t size) {
    handler_ = [this, size](const Request& request) -> absl::StatusOr<Response> {
      requests_.push_back(request);
      Response response{ReplyMessage(testing::XidOf(request.message), 4), {}};
      response.results.push_back(
          {static_cast<uint32_t>(response.message.size()), Pattern(size, 5)});
      return response;
    };
  }
};

// Shows RPCRDMA2-4-01, RPCRDMA2-4-02, RPCRDMA2-7.2.3-01: of a window and a lasting registration,
// the call names the window, and nothing if there is none.
TEST_F(Results, GoIntoWriteChunks) {
  Connect();
  ReplyWithResult(30001);
  for (const dat::Access access : {dat::Access::kRemoteWrite, dat::Access::kWindows}) {
    const auto& memory = NewMemory(client_->domain(), Bytes(40000), access);
    for (uint32_t xid = 1; xid < 5; ++xid) {
      std::ranges::fill(memory.region->memory(), std::byte{});
      const auto reply = Run({.message = CallMessage(xid), .results = {memory.All()}});
      ASSERT_TRUE(reply.ok()) << reply.status();
      EXPECT_EQ(reply->placed, std::vector<uint32_t>{30001});
      EXPECT_EQ(reply->message, ReplyMessage(xid, 4));
      const Bytes placed(memory.bytes.begin(), memory.bytes.begin() + 30001);
      EXPECT_EQ(placed, Pattern(30001, 5));
    }
  }
}

TEST_F(Results, GoIntoTheMessageWithoutAWriteChunk) {
  Connect();
  ReplyWithResult(101);
  const auto reply = Run({.message = CallMessage(1)});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->placed.empty());
  EXPECT_EQ(reply->message, Whole(ReplyMessage(1, 4), Pattern(101, 5)));
}

// Shows RPCRDMA2-7.2.4-08, RPCRDMA2-7.2.4-09.
TEST_F(Results, GoIntoAReplyChunkIfTheServerTakesNoWriteChunks) {
  server_options_.max_write_chunks = 0;
  Connect();
  ReplyWithResult(30001);
  const auto& memory = NewMemory(client_->domain(), Bytes(40000), dat::Access::kWindows);
  const auto reply = Run({.message = CallMessage(1), .results = {memory.All()}});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->placed.empty());
  EXPECT_EQ(reply->message, Whole(ReplyMessage(1, 4), Pattern(30001, 5)));
  EXPECT_EQ(server_->responder().refused(), 1u);
}

// Shows RPCRDMA2-7.2.4-11.
TEST_F(Results, TooLongForTheirWriteChunkAreAnError) {
  Connect();
  ReplyWithResult(30001);
  const auto& memory = NewMemory(client_->domain(), Bytes(30000), dat::Access::kWindows);
  const auto reply = Run({.message = CallMessage(1), .results = {memory.All()}});
  EXPECT_TRUE(absl::IsFailedPrecondition(reply.status())) << reply.status();
  EXPECT_NE(reply.status().message().find("write chunk 1 needs 30001 bytes"), std::string::npos)
      << reply.status();
  ASSERT_TRUE(Run({.message = CallMessage(2), .results = {}, .max_reply_bytes = 40000}).ok());
}

// Shows RPCRDMA2-7.2.4-12, RPCRDMA2-7.2.4-13.
TEST_F(RpcRdma, AReplyLongerThanExpectedIsRequestedAgain) {
  Connect();
  handler_ = [&](const Request& request) -> absl::StatusOr<Response> {
    requests_.push_back(request);
    return Response{ReplyMessage(testing::XidOf(request.message), 10000), {}};
  };
  const auto reply = Run({.message = CallMessage(1), .max_reply_bytes = 100});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->message, ReplyMessage(1, 10000));
  EXPECT_EQ(requests_.size(), 2u);
}

// Shows RPCRDMA2-7.2.4-04, RPCRDMA2-7.2.4-05.
TEST_F(RpcRdma, ACallIsSentInOnePieceToAServerWithoutReadChunks) {
  server_options_.max_read_chunks = 0;
  Connect();
  ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
  const Bytes head = CallMessage(2), data = Pattern(9000, 3);
  const auto& memory = NewMemory(client_->domain(), data, dat::Access::kRemoteRead);
  ASSERT_TRUE(
      Run({.message = head, .arguments = {{static_cast<uint32_t>(head.size()), memory.All()}}})
          .ok());
  EXPECT_EQ(calls_.back(), Whole(head, data));
  EXPECT_TRUE(requests_.back().was_long);
  EXPECT_EQ(requests_.back().read_chunks, 0u);
}

// Shows RPCRDMA2-7.2.4-14, RPCRDMA2-7.2.4-15: it is not sent again.
TEST_F(RpcRdma, AProblemOfTheServerEndsTheCall) {
  Connect();
  handler_ = [&](const Request& request) -> absl::StatusOr<Response> {
    requests_.push_back(request);
    return absl::InternalError("disk");
  };
  const auto reply = Run({.message = CallMessage(1)});
  EXPECT_TRUE(absl::IsFailedPrecondition(reply.status())) << reply.status();
  EXPECT_NE(reply.status().message().find("RDMA2_ERR_SYSTEM"), std::string::npos);
  EXPECT_EQ(requests_.size(), 1u);
}

TEST_F(RpcRdma, MoreCallsThanCreditsWaitForTheirTurn) {
  server_options_.credits = 3;
  Connect();
  size_t done = 0;
  for (uint32_t xid = 1; xid <= 50; ++xid) {
    client_->Start({.message = CallMessage(xid)}, [&](absl::StatusOr<Reply> reply) {
      EXPECT_TRUE(reply.ok()) << reply.status();
      ++done;
    });
    EXPECT_LE(client_->requester().outstanding(), 3u);
  }
  ASSERT_TRUE(Until([&] { return done == 50; }));
  EXPECT_EQ(client_->requester().granted(), 3u);
}

TEST_F(RpcRdma, MessagesBeyondTheMemoryForThemAreRefusedHere) {
  Connect();
  auto reply = Run({.message = CallMessage(1, 70000)});
  EXPECT_TRUE(absl::IsResourceExhausted(reply.status())) << reply.status();
  reply = Run({.message = CallMessage(2), .max_reply_bytes = 70000});
  EXPECT_TRUE(absl::IsResourceExhausted(reply.status())) << reply.status();
  EXPECT_TRUE(Run({.message = CallMessage(3)}).ok());
}

// The reverse direction.

// Shows RPCRDMA2-7.2.2-01, RPCRDMA2-6.2.2-02: the client answers by the chunks that the server
// gives it, whatever the server has said about itself.
TEST_F(RpcRdma, TheServerCanCallTheClient) {
  server_options_.backward = BackwardSupport::kInline;
  for (const uint32_t version : {1u, 2u}) {
    client_options_.highest_version = version;
    Connect([this](const Request& request) -> absl::StatusOr<Response> {
      requests_.push_back(request);
      return Response{
          ReplyMessage(testing::XidOf(request.message), requests_.back().was_long ? 8000 : 8), {}};
    });
    ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
    auto reply = Run(*server_, {.message = CallMessage(1)});  // the same XID
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->message, ReplyMessage(1, 8));
    if (version == 2) {
      ASSERT_TRUE(Until([&] { return server_->properties().announced().has_value(); }));
      reply = Run(*server_, {.message = CallMessage(2, 8000), .max_reply_bytes = 9000});
      ASSERT_TRUE(reply.ok()) << reply.status();
      EXPECT_EQ(reply->message, ReplyMessage(2, 8000));
    }
    client_.reset();
    server_.reset();
  }
}

TEST_F(RpcRdma, TheServerCallsOnlyClientsThatTakeIt) {
  client_options_.backward = BackwardSupport::kInline;
  Connect(handler_);
  auto reply = Run(*server_, {.message = CallMessage(5)});
  EXPECT_TRUE(absl::IsFailedPrecondition(reply.status()) || absl::IsUnavailable(reply.status()))
      << reply.status();
  ASSERT_TRUE(Run({.message = CallMessage(1)}).ok());
  ASSERT_TRUE(Until([&] { return server_->properties().announced().has_value(); }));
  EXPECT_TRUE(Run(*server_, {.message = CallMessage(6)}).ok());
  reply = Run(*server_, {.message = CallMessage(7, 8000)});
  EXPECT_TRUE(absl::IsFailedPrecondition(reply.status())) << reply.status();
}

}  // namespace
}  // namespace dafs::rpcrdma
