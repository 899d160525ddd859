#include "runtime/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace dafs {
namespace {

std::vector<std::byte> Fill(size_t size, int start, int step) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < size; ++i) {
    bytes.push_back(static_cast<std::byte>((start + static_cast<int>(i) * step) & 0xff));
  }
  return bytes;
}

TEST(Crc32c, MatchesTheKnownValues) {
  // RFC 3720, B.4, read as numbers, and the check value of the CRC catalogues.
  EXPECT_EQ(ExtendCrc32c(0, Fill(32, 0, 0)), 0x8a9136aau);
  EXPECT_EQ(ExtendCrc32c(0, Fill(32, 0xff, 0)), 0x62a8ab43u);
  EXPECT_EQ(ExtendCrc32c(0, Fill(32, 0, 1)), 0x46dd794eu);
  EXPECT_EQ(ExtendCrc32c(0, Fill(32, 31, -1)), 0x113fdb5cu);
  const std::string digits = "123456789";
  EXPECT_EQ(ExtendCrc32c(0, std::as_bytes(std::span(digits))), 0xe3069283u);
}

TEST(Crc32c, EmptyInputLeavesTheValueUnchanged) {
  EXPECT_EQ(ExtendCrc32c(0, {}), 0u);
  EXPECT_EQ(ExtendCrc32c(0x12345678, {}), 0x12345678u);
}

// The definition: bit by bit, with the polynomial 0x1edc6f41 reflected.
uint32_t BitByBit(uint32_t crc, std::span<const std::byte> data) {
  uint32_t state = ~crc;
  for (std::byte byte : data) {
    state ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~state;
}

TEST(Crc32c, FollowsTheDefinitionAtEveryLengthAndAlignment) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(20000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
  for (size_t size = 0; size < 600; ++size) {
    const std::span<const std::byte> part(&bytes[size % 17], size);
    ASSERT_EQ(ExtendCrc32c(0, part), BitByBit(0, part)) << size;
  }
  // Sizes at which an implementation with several lanes may change its way.
  for (size_t size : std::initializer_list<size_t>{3071, 3072, 3073, 3080, 6143, 6144, 6145, 9216,
                                                   12289, 19000}) {
    for (size_t offset = 0; offset < 9; ++offset) {
      const std::span<const std::byte> part(&bytes[offset], size);
      ASSERT_EQ(ExtendCrc32c(77, part), BitByBit(77, part)) << size << " " << offset;
    }
  }
}

TEST(Crc32c, ContinuesFromAnIntermediateValue) {
  const std::vector<std::byte> bytes = Fill(10000, 3, 5);
  const uint32_t whole = ExtendCrc32c(0, bytes);
  for (size_t cut : std::initializer_list<size_t>{0, 1, 7, 8, 3072, 5000, 9999, 10000}) {
    const uint32_t first = ExtendCrc32c(0, std::span(bytes).first(cut));
    EXPECT_EQ(ExtendCrc32c(first, std::span(bytes).subspan(cut)), whole) << cut;
  }
}

}  // namespace
}  // namespace dafs
