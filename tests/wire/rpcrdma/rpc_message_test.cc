#include "wire/rpcrdma/rpc_message.h"

#include <gtest/gtest.h>

#include "tests/wire/rpcrdma/hex.h"

namespace dafs::rpcrdma {
namespace {

using testing::Hex;

TEST(RpcMessage, CallsHaveTheBytesOfRfc5531) {
  const RpcCall call = {.xid = 9, .program = 100003, .version = 3, .procedure = 6};
  EXPECT_EQ(EncodeCall(call), Hex("00000009 00000000 00000002 000186a3 00000003 00000006"
                                  "00000000 00000000 00000000 00000000"));
  const AuthSys auth = {.machine = "ab", .uid = 1, .gid = 2};
  const Bytes with_auth = EncodeCall(call, &auth);
  EXPECT_EQ(with_auth, Hex("00000009 00000000 00000002 000186a3 00000003 00000006"
                           "00000001 00000018 00000000 00000002 61620000 00000001 00000002"
                           "00000000 00000000 00000000"));
  const auto decoded = DecodeCall(with_auth);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->call.program, 100003u);
  EXPECT_EQ(decoded->arguments_at, with_auth.size());
}

TEST(RpcMessage, RepliesOfEveryStatus) {
  for (const auto& [hex, status] :
       {std::pair{"00000009 00000001 00000000 00000000 00000000 00000000", ReplyStatus::kSuccess},
        {"00000009 00000001 00000000 00000000 00000000 00000002 00000003 00000004",
         ReplyStatus::kProgramMismatch},
        {"00000009 00000001 00000001 00000000 00000003 00000004", ReplyStatus::kRpcMismatch},
        {"00000009 00000001 00000001 00000001 00000005", ReplyStatus::kAuthError}}) {
    const Bytes bytes = Hex(hex);
    const auto decoded = DecodeReply(bytes);
    ASSERT_TRUE(decoded.ok()) << hex;
    EXPECT_EQ(decoded->reply.status, status);
    EXPECT_EQ(EncodeReply(decoded->reply), bytes);
    EXPECT_EQ(decoded->reply.high, decoded->reply.low == 0 ? 0u : 4u);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(DecodeReply(std::span(bytes).first(size)).ok()) << size;
    }
  }
}

TEST(RpcMessage, OtherBytesAreNoReply) {
  EXPECT_FALSE(DecodeReply(Hex("00000009 00000000 00000000 00000000 00000000 00000000")).ok());
  EXPECT_FALSE(DecodeReply(Hex("00000009 00000001 00000002 00000000 00000000 00000000")).ok());
  EXPECT_FALSE(DecodeReply(Hex("00000009 00000001 00000000 00000000 00000000 00000006")).ok());
  EXPECT_FALSE(DecodeReply(Hex("00000009 00000001 00000001 00000002 00000000")).ok());
  EXPECT_FALSE(DecodeCall(Hex("00000009 00000001")).ok());
}

}  // namespace
}  // namespace dafs::rpcrdma
