// The Fletcher checksum: the golden vectors, the table of section 6, data in pieces of any size.
#include "wire/codec/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/wire/vectors.h"

namespace dafs::wire::testing {
namespace {

// The pseudo-code of WIRE section 6, word by word.
Checksum BySpecification(std::vector<std::byte> data, ByteOrder order) {
  if (data.size() % 2 != 0) data.push_back(std::byte{0});
  uint32_t s1 = 0x0101;
  uint32_t s2 = 0;
  for (size_t i = 0; i < data.size(); i += 2) {
    const auto a = std::to_integer<uint32_t>(data[i]);
    const auto b = std::to_integer<uint32_t>(data[i + 1]);
    s1 += order == ByteOrder::kLittle ? (b << 8 | a) : (a << 8 | b);
    if (s1 > 65535) s1 -= 65535;
    s2 += s1;
    if (s2 > 65535) s2 -= 65535;
  }
  return {static_cast<uint16_t>(s2), static_cast<uint16_t>(s1)};
}

constexpr ByteOrder kOrders[] = {ByteOrder::kLittle, ByteOrder::kBig};

// Shows DAFS-3.2.5-13: S2 first, then S1.
TEST(ChecksumTest, MatchesEveryVectorWholeAndInTwoPieces) {
  size_t done = 0;
  for (const Json& vector : LoadVectors("checksum.json")) {
    std::string hex = vector.value("data", "");
    for (size_t i = 0; i < vector.value("times", 0u); ++i) {
      hex += vector.at("repeat").get<std::string>();
    }
    const std::vector<std::byte> data = BytesFromHex(hex);
    const ByteOrder order = OrderOf(vector);
    const Checksum expected = {vector.at("S2").get<uint16_t>(), vector.at("S1").get<uint16_t>()};
    EXPECT_EQ(ComputeChecksum(data, order), expected);
    for (size_t cut = 0; cut <= data.size(); cut += 1 + data.size() / 300) {
      Fletcher sum(order);
      sum.Add(std::span(data).first(cut));
      sum.Add(std::span(data).subspan(cut));
      ASSERT_EQ(sum.Result(), expected) << cut;
    }
    std::byte wire[4];
    internal::StoreAs(wire, expected.s2, internal::NeedsSwap(order));
    internal::StoreAs(wire + 2, expected.s1, internal::NeedsSwap(order));
    EXPECT_EQ(Hex(wire), vector.at("wire").get<std::string>());
    ++done;
  }
  EXPECT_EQ(done, 20u);
}

TEST(ChecksumTest, MatchesTheTableOfSection6) {
  struct Row {
    const char* data;
    Checksum little;
    Checksum big;
  };
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::string all_hex = Hex(all);
  const Row rows[] = {
      {"", {0x0000, 0x0101}, {0x0000, 0x0101}},
      {"0000000000000000", {0x0404, 0x0101}, {0x0404, 0x0101}},
      {"616263", {0xc727, 0x63c5}, {0x27c7, 0xc563}},
      {"6162636465", {0xf352, 0xc82a}, {0x52f3, 0x2ac8}},
      {"ffffffffffffffff", {0x0404, 0x0101}, {0x0404, 0x0101}},
      {all_hex.c_str(), {0xf5d5, 0x40c1}, {0xd5f5, 0xc140}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(ComputeChecksum(BytesFromHex(row.data), ByteOrder::kLittle), row.little) << row.data;
    EXPECT_EQ(ComputeChecksum(BytesFromHex(row.data), ByteOrder::kBig), row.big) << row.data;
  }
}

// Shows DAFS-3.2.5-09, DAFS-3.2.5-10, DAFS-3.2.5-11, DAFS-3.2.5-12.
TEST(ChecksumTest, EqualsTheSpecificationForRandomDataInRandomPieces) {
  std::mt19937 random(3205);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::byte> data(random() % 20000);
    // Long runs of ones and zeros reach the limits of the modulus.
    const int kind = round % 4;
    for (std::byte& b : data) {
      b = kind == 0   ? std::byte{0xff}
          : kind == 1 ? std::byte{0}
                      : static_cast<std::byte>(random() & 0xff);
    }
    for (const ByteOrder order : kOrders) {
      Fletcher sum(order);
      std::span<const std::byte> rest(data);
      while (!rest.empty()) {
        const size_t piece = std::min<size_t>(rest.size(), random() % 700);
        sum.Add(rest.first(piece));
        rest = rest.subspan(piece);
      }
      ASSERT_EQ(sum.Result(), BySpecification(data, order)) << data.size();
    }
  }
}

TEST(ChecksumTest, LongRunsOfOnesDoNotOverflow) {
  const std::vector<std::byte> data(3 << 20, std::byte{0xff});
  for (const ByteOrder order : kOrders) {
    EXPECT_EQ(ComputeChecksum(data, order), BySpecification(data, order));
  }
}

// Shows DAFS-3.2.5-08: the checksum field itself counts as zero.
TEST(ChecksumTest, MessageChecksumIgnoresItsOwnField) {
  std::vector<std::byte> message = BytesFromHex(
      "534641440100000008000000030007000102030405060708000000000000000084000000"
      "28000000");
  const Checksum sum = MessageChecksum(message, ByteOrder::kLittle);
  EXPECT_EQ(sum, (Checksum{0x6f83, 0xa064}));  // WIRE 14.1
  for (size_t i = 24; i < 28; ++i) message[i] = std::byte{0x5a};
  EXPECT_EQ(MessageChecksum(message, ByteOrder::kLittle), sum);
}

}  // namespace
}  // namespace dafs::wire::testing
