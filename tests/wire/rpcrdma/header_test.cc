// The bytes of transport headers, worked out by hand from the XDR of RPCRDMA2 7.2 and of RFC 8166,
// 4. Every truncation of each is refused.
#include "wire/rpcrdma/header.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/wire/rpcrdma/hex.h"

namespace dafs::rpcrdma {
namespace {

using testing::Hex;

struct Vector {
  std::string name;
  std::string hex;
  Header header;
};

Header Of(uint32_t version, Proc proc) {
  Header header;
  header.xid = 0x01020304;
  header.version = version;
  header.credits = 32;
  header.proc = proc;
  return header;
}

std::vector<Vector> Vectors() {
  std::vector<Vector> all;
  Header call = Of(2, Proc::kMessage);
  call.chunks.invalidate = 0xaabb;
  call.chunks.reads = {{40, {0x11, 0x100, 0x1122334455667788}}, {40, {0x12, 3, 8}}};
  call.chunks.writes = {{{0xaabb, 0x200, 0x1000}, {0xaabc, 1, 0x2000}}, {}};
  call.chunks.reply = WriteChunk{{0x21, 0x1000, 0}};
  all.push_back({"message with every chunk",
                 "01020304 00000002 00000020 00000000  00000000 0000aabb"
                 "00000001 00000028 00000011 00000100 1122334455667788"
                 "00000001 00000028 00000012 00000003 0000000000000008 00000000"
                 "00000001 00000002 0000aabb 00000200 0000000000001000"
                 "                  0000aabc 00000001 0000000000002000"
                 "00000001 00000000 00000000"
                 "00000001 00000001 00000021 00001000 0000000000000000",
                 call});
  Header reply = Of(2, Proc::kNoMessage);
  reply.chunks.direction = Direction::kReply;
  all.push_back({"reply without chunks",
                 "01020304 00000002 00000020 00000001 00000001 00000000 00000000 00000000 00000000",
                 reply});
  Header old = Of(1, Proc::kMessage);
  old.chunks.writes = {{{7, 8, 9}}};
  all.push_back({"version 1",
                 "01020304 00000001 00000020 00000000 00000000"
                 "00000001 00000001 00000007 00000008 0000000000000009 00000000 00000000",
                 old});
  const auto error = [&](const std::string& name, const std::string& hex, const ErrorBody& body) {
    Header header = Of(2, Proc::kError);
    header.error = body;
    all.push_back({name, "01020304 00000002 00000020 00000004" + hex, header});
  };
  error("versions", "00000001 00000001 00000003",
        {.code = ErrorCode::kVersion, .low = 1, .high = 3});
  error("bad XDR", "00000002", {.code = ErrorCode::kBadXdr});
  error("procedure", "00000003", {.code = ErrorCode::kInvalidProcedure});
  error("read chunks", "00000004 00000005", {.code = ErrorCode::kReadChunks, .most = 5});
  error("write chunks", "00000005 00000006", {.code = ErrorCode::kWriteChunks, .most = 6});
  error("segments", "00000006 00000007", {.code = ErrorCode::kSegments, .most = 7});
  error("write resource", "00000007 00000002 00001000",
        {.code = ErrorCode::kWriteResource, .chunk_index = 2, .length_needed = 4096});
  error("reply resource", "00000008 00001000",
        {.code = ErrorCode::kReplyResource, .length_needed = 4096});
  error("option", "00000009", {.code = ErrorCode::kInvalidOption});
  error("system", "0000000a", {.code = ErrorCode::kSystem});
  Header old_error = Of(1, Proc::kError);
  old_error.error = {.code = ErrorCode::kVersion, .low = 1, .high = 1};
  all.push_back({"error of version 1",
                 "01020304 00000001 00000020 00000004 00000001 00000001 00000001", old_error});
  Header optional = Of(2, Proc::kOptional);
  optional.optional = {Direction::kReply, 77, Hex("aabbcc")};
  all.push_back({"optional",
                 "01020304 00000002 00000020 00000005 00000001 0000004d 00000003 aabbcc00",
                 optional});
  Header properties = Of(2, Proc::kConnectionProperties);
  properties.properties.values = {{1, Hex("00002000")}, {2, {}}};
  properties.properties.no_change = {2};
  all.push_back({"connection properties",
                 "01020304 00000002 00000020 00000006"
                 "00000002 00000001 00000004 00002000 00000002 00000000  00000001 00000002",
                 properties});
  Header request = Of(2, Proc::kRequestProperties);
  request.properties.values = {{1, Hex("00002000")}};
  all.push_back({"property request",
                 "01020304 00000002 00000020 00000007 00000001 00000001 00000004 00002000",
                 request});
  Header response = Of(2, Proc::kRespondProperties);
  response.properties.done = {1};
  response.properties.rejected = {0, 4};
  response.properties.values = {{9, Hex("01")}};
  all.push_back({"property response",
                 "01020304 00000002 00000020 00000008 00000001 00000001"
                 "00000002 00000000 00000004  00000001 00000009 00000001 01000000",
                 response});
  Header update = Of(2, Proc::kUpdateProperties);
  update.properties.values = {{1, Hex("00004000")}};
  all.push_back({"property update",
                 "01020304 00000002 00000020 00000009 00000001 00000001 00000004 00004000",
                 update});
  return all;
}

// Shows RPCRDMA2-7.2-01, RPCRDMA2-7.2-02, RPCRDMA2-6.3-03.
TEST(RpcRdmaHeader, BytesAreThoseOfTheXdr) {
  for (const Vector& one : Vectors()) {
    SCOPED_TRACE(one.name);
    EXPECT_EQ(EncodeHeader(one.header), Hex(one.hex));
    const DecodedHeader decoded = DecodeHeader(Hex(one.hex));
    EXPECT_EQ(decoded.fault, HeaderFault::kNone);
    EXPECT_EQ(decoded.header, one.header);
    EXPECT_EQ(decoded.size, Hex(one.hex).size());
  }
}

// Shows RPCRDMA2-6.1.1-02: also the length of a property's data is within the message.
TEST(RpcRdmaHeader, EveryTruncationIsRefused) {
  for (const Vector& one : Vectors()) {
    SCOPED_TRACE(one.name);
    const Bytes whole = Hex(one.hex);
    for (size_t size = 0; size < whole.size(); ++size) {
      const DecodedHeader decoded = DecodeHeader(std::span(whole).first(size));
      EXPECT_EQ(decoded.fault, size < 16 ? HeaderFault::kTooShort : HeaderFault::kBadXdr) << size;
    }
  }
}

TEST(RpcRdmaHeader, TheMessageFollowsTheHeader) {
  Bytes message = EncodeHeader(Of(2, Proc::kMessage));
  const size_t size = message.size();
  message.resize(size + 8);
  EXPECT_EQ(DecodeHeader(message).size, size);
}

TEST(RpcRdmaHeader, OtherVersionsAndProceduresAreRecognised) {
  EXPECT_EQ(DecodeHeader(Hex("00000001 00000003 00000001 00000000")).fault, HeaderFault::kVersion);
  EXPECT_EQ(DecodeHeader(Hex("00000001 00000000 00000001 00000000")).fault, HeaderFault::kVersion);
  EXPECT_EQ(DecodeHeader(Hex("00000001 00000002 00000001 0000000a")).fault,
            HeaderFault::kProcedure);
  // RDMA_MSGP of version 1 is retired, and version 1 has no optional operations.
  EXPECT_EQ(DecodeHeader(Hex("00000001 00000001 00000001 00000002")).fault,
            HeaderFault::kProcedure);
  EXPECT_EQ(DecodeHeader(Hex("00000001 00000001 00000001 00000005")).fault,
            HeaderFault::kProcedure);
}

TEST(RpcRdmaHeader, CountsBeyondTheMessageAllocateNothing) {
  const std::string start = "00000001 00000002 00000001 ";
  for (const std::string hex :
       {"00000000 00000000 00000000 00000000 00000001 ffffffff",           // a write chunk
        "00000000 00000000 00000000 00000000 00000000 00000001 7fffffff",  // a reply chunk
        "00000000 00000002 00000000 00000000 00000000 00000000",           // direction 2
        "00000000 00000000 00000000 00000002 00000000 00000000 00000000",  // a list marker 2
        "00000005 00000000 00000001 ffffffff",                             // optional info
        "00000006 ffffffff", "00000006 00000001 00000001 fffffffd",        // property data
        "00000008 40000000", "00000004 0000000b"}) {
    EXPECT_EQ(DecodeHeader(Hex(start + hex)).fault, HeaderFault::kBadXdr) << hex;
  }
}

}  // namespace
}  // namespace dafs::rpcrdma
