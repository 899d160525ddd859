// Attributes that a response carries after its result. WIRE 9.8. The bytes are worked out by hand.
#include "wire/codec/attributes_after.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/wire/codec/json_fields.h"
#include "wire/codec/checksum.h"
#include "wire/codec/codec.h"
#include "wire/protocol/header.h"

namespace dafs::wire::testing {
namespace {

// The example of WIRE 5.4.
FileAttributes Example() {
  FileAttributes a;
  a.included = a.valid = kFattrHidden | kFattrObjectType | kFattrObjectSize | kFattrOwner;
  a.object_type = ObjectType::kReg;
  a.object_size = 5;
  a.owner = "root";
  return a;
}

std::vector<std::byte> Response(const AttributesAfter& after, ByteOrder order, bool checksum) {
  ResponseHeader header;
  header.target_nreq = 8;
  header.stream_id = 3;
  header.seq_number = 7;
  header.analyzer = {{1, 2, 3, 4, 5, 6, 7, 8}};
  std::vector<std::byte> out(4096, std::byte{0xaa});
  EncodeResponseHeaderOnly(header, order, out, checksum);
  const auto size = AppendAttributes(after, order, out, kHeaderSize, checksum);
  EXPECT_TRUE(size.ok()) << size.status();
  out.resize(size.value_or(0));
  return out;
}

constexpr char kExample[] =
    "14018000000000001401800000000000"
    "00000000010000000500000000000000"
    "280000000000000004000000726f6f74";

TEST(AttributesAfterTest, OffsetsCountFromThePart) {
  AttributesAfter after;
  after.other = Example();
  after.other_promise = kSpcondAttributes | kSpcondOnlyClients;
  EXPECT_EQ(Hex(Response(after, ByteOrder::kLittle, false)),
            std::string("52464144010000000800000003000700"
                        "01020304050607080000000000000000"
                        "6800000028000000"   // response_len 104, the part begins at 40
                        "0000000000000000"   // no attributes of the current filehandle
                        "1000000000060000")  // the others are at 16 of the part
                + kExample);
  after.current = Example();
  after.current_promise = kSpcondAttributes;
  EXPECT_EQ(Hex(Response(after, ByteOrder::kLittle, false)).substr(80),
            std::string("10000000000200004000000000060000") + kExample + kExample);
}

TEST(AttributesAfterTest, DecodesWhatItEncodes) {
  for (const ByteOrder order : {ByteOrder::kLittle, ByteOrder::kBig}) {
    AttributesAfter after;
    after.current = after.other = Example();
    after.current.object_size = 77;
    after.current_promise = kSpcondAttributes;
    const std::vector<std::byte> message = Response(after, order, true);
    const auto header = DecodeResponseHeader(message, order);
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->header.attributes_at, kHeaderSize);
    EXPECT_EQ(MessageChecksum(message, order), header->header.message_checksum);
    AttributesAfter decoded;
    ASSERT_TRUE(DecodeAttributes(message, kHeaderSize, order, decoded).ok());
    EXPECT_EQ(decoded.current, after.current);
    EXPECT_EQ(decoded.other, after.other);
    EXPECT_EQ(decoded.current_promise, kSpcondAttributes);
    EXPECT_EQ(decoded.other_promise, 0);
  }
}

TEST(AttributesAfterTest, RejectsTruncatedAndMisplacedParts) {
  AttributesAfter after;
  after.current = after.other = Example();
  const std::vector<std::byte> message = Response(after, ByteOrder::kLittle, false);
  AttributesAfter decoded;
  for (size_t size = 0; size < message.size(); ++size) {
    EXPECT_FALSE(
        DecodeAttributes(std::span(message).first(size), 40, ByteOrder::kLittle, decoded).ok())
        << size;
  }
  for (const uint32_t at : {8u, 44u, 152u, 160u, 0xfffffff8u}) {
    EXPECT_FALSE(DecodeAttributes(message, at, ByteOrder::kLittle, decoded).ok()) << at;
  }
  for (const int offset : {8, 20, 200}) {
    std::vector<std::byte> wrong = message;
    wrong[48] = static_cast<std::byte>(offset);
    EXPECT_FALSE(DecodeAttributes(wrong, 40, ByteOrder::kLittle, decoded).ok()) << offset;
  }
}

TEST(AttributesAfterTest, MessageIsUnchangedIfTheyDoNotFit) {
  AttributesAfter after;
  after.current = Example();
  const std::vector<std::byte> whole = Response(after, ByteOrder::kLittle, true);
  for (size_t room = kHeaderSize; room < whole.size(); ++room) {
    std::vector<std::byte> out(room);
    EncodeResponseHeaderOnly({}, ByteOrder::kLittle, out, true);
    const std::vector<std::byte> before(out.begin(), out.begin() + kHeaderSize);
    EXPECT_FALSE(AppendAttributes(after, ByteOrder::kLittle, out, kHeaderSize, true).ok()) << room;
    EXPECT_EQ(std::vector<std::byte>(out.begin(), out.begin() + kHeaderSize), before);
  }
}

}  // namespace
}  // namespace dafs::wire::testing
