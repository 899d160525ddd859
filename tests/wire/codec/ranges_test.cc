// The private procedures on ranges of a file: bytes computed by hand from the layouts in
// wire/messages/ranges.h, round trips in both byte orders, and refused values.
#include <gtest/gtest.h>

#include <vector>

#include "tests/wire/codec/json_fields.h"
#include "wire/codec/codec.h"
#include "wire/rules/request_check.h"

namespace dafs::wire::testing {
namespace {

FileHandle HandleOf(uint8_t first) {
  FileHandle f;
  for (uint8_t& byte : f.fshandle.bytes) byte = first++;
  for (uint8_t& byte : f.fileid.bytes) byte = first++;
  return f;
}

AllocateArgs Allocate() {
  AllocateArgs args;
  args.filehandle = HandleOf(0);
  args.state_id = {{1, 2, 3, 4, 5, 6, 7, 8}};
  args.offset = 0x1000;
  args.length = 0x123456789;
  args.mode = AllocateMode::kPunchHole;
  return args;
}

SeekArgs Seek() {
  SeekArgs args;
  args.filehandle = HandleOf(0);
  args.state_id = {{1, 2, 3, 4, 5, 6, 7, 8}};
  args.offset = 5;
  args.what = SeekWhat::kHole;
  return args;
}

CopyRangeArgs CopyRange() {
  CopyRangeArgs args;
  args.filehandle = HandleOf(0);
  args.source_filehandle = HandleOf(64);
  args.state_id = {{1, 2, 3, 4, 5, 6, 7, 8}};
  args.source_state_id = {{8, 7, 6, 5, 4, 3, 2, 1}};
  args.offset = 1;
  args.source_offset = 2;
  args.length = 3;
  return args;
}

template <class Args>
std::vector<std::byte> Request(const Args& args, ByteOrder order) {
  std::vector<std::byte> out(512, std::byte{0xaa});
  const auto size = EncodeRequest(RequestHeader(), args, order, out, {});
  EXPECT_TRUE(size.ok()) << size.status();
  out.resize(size.value_or(0));
  return out;
}

// The argument section only.
template <class Args>
std::string Section(const Args& args, ByteOrder order) {
  return Hex(Request(args, order)).substr(2 * kHeaderSize);
}

constexpr char kHandle0[] =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";
constexpr char kHandle64[] =
    "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f"
    "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f";

TEST(RangesTest, RequestsHaveTheLayoutOfTheHeader) {
  EXPECT_EQ(Section(Allocate(), ByteOrder::kLittle), std::string(kHandle0) +
                                                         "0102030405060708"
                                                         "0010000000000000"
                                                         "8967452301000000"
                                                         "0200000000000000");
  EXPECT_EQ(Section(Allocate(), ByteOrder::kBig), std::string(kHandle0) +
                                                      "0102030405060708"
                                                      "0000000000001000"
                                                      "0000000123456789"
                                                      "0000000200000000");
  EXPECT_EQ(Section(Seek(), ByteOrder::kLittle), std::string(kHandle0) +
                                                     "0102030405060708"
                                                     "0500000000000000"
                                                     "0200000000000000");
  EXPECT_EQ(Section(CopyRange(), ByteOrder::kBig), std::string(kHandle0) + kHandle64 +
                                                       "0102030405060708"
                                                       "0807060504030201"
                                                       "0000000000000001"
                                                       "0000000000000002"
                                                       "0000000000000003");
}

TEST(RangesTest, ResponsesHaveTheLayoutOfTheHeader) {
  std::vector<std::byte> out(kHeaderSize + 8);
  SeekRes seek;
  seek.offset = 0x1122;
  ASSERT_EQ(EncodeResponse(ResponseHeader(), seek, ByteOrder::kBig, out, {}).value_or(0),
            out.size());
  EXPECT_EQ(Hex(out).substr(2 * kHeaderSize), "0000000000001122");
  out.assign(kHeaderSize + 16, std::byte());
  CopyRangeRes copied;
  copied.count = 0x300000000;
  copied.verifier = {{9, 8, 7, 6, 5, 4, 3, 2}};
  ASSERT_EQ(EncodeResponse(ResponseHeader(), copied, ByteOrder::kLittle, out, {}).value_or(0),
            out.size());
  EXPECT_EQ(Hex(out).substr(2 * kHeaderSize), "00000000030000000908070605040302");
}

template <class Args>
void ExpectRoundTripAndNoTruncation(const Args& args) {
  for (const ByteOrder order : {ByteOrder::kLittle, ByteOrder::kBig}) {
    std::vector<std::byte> message = Request(args, order);
    Args decoded;
    EXPECT_EQ(DecodeArgs(message, order, decoded), DafsStatus::kOk);
    EXPECT_EQ(decoded, args);
    while (message.size() > kHeaderSize) {
      message.pop_back();
      EXPECT_NE(DecodeArgs(message, order, decoded), DafsStatus::kOk) << message.size();
    }
  }
}

TEST(RangesTest, RequestsRoundTripAndTruncatedOnesAreRefused) {
  ExpectRoundTripAndNoTruncation(Allocate());
  ExpectRoundTripAndNoTruncation(Seek());
  ExpectRoundTripAndNoTruncation(CopyRange());
}

template <class Res>
void ExpectRoundTripAndNoTruncation(const Res& res, size_t size) {
  for (const ByteOrder order : {ByteOrder::kLittle, ByteOrder::kBig}) {
    std::vector<std::byte> message(kHeaderSize + size);
    ASSERT_TRUE(EncodeResponse(ResponseHeader(), res, order, message, {}).ok());
    Res decoded;
    EXPECT_TRUE(DecodeRes(message, order, DafsStatus::kOk, decoded).ok());
    EXPECT_EQ(decoded, res);
    while (message.size() > kHeaderSize) {
      message.pop_back();
      EXPECT_FALSE(DecodeRes(message, order, DafsStatus::kOk, decoded).ok()) << message.size();
    }
  }
}

TEST(RangesTest, ResponsesRoundTripAndTruncatedOnesAreRefused) {
  SeekRes seek;
  seek.offset = UINT64_MAX;
  ExpectRoundTripAndNoTruncation(seek, 8);
  CopyRangeRes copied;
  copied.count = 1;
  copied.verifier = {{1}};
  ExpectRoundTripAndNoTruncation(copied, 16);
}

TEST(RangesTest, UndefinedValuesAreRefused) {
  AllocateArgs allocate = Allocate();
  allocate.mode = static_cast<AllocateMode>(7);
  EXPECT_EQ(DecodeArgs(Request(allocate, ByteOrder::kBig), ByteOrder::kBig, allocate),
            DafsStatus::kInval);
  for (const uint32_t what : {0u, 3u}) {
    SeekArgs seek = Seek();
    seek.what = static_cast<SeekWhat>(what);
    EXPECT_EQ(DecodeArgs(Request(seek, ByteOrder::kLittle), ByteOrder::kLittle, seek),
              DafsStatus::kInval);
  }
}

}  // namespace
}  // namespace dafs::wire::testing
