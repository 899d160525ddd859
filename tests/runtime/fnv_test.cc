#include "runtime/fnv.h"

#include <gtest/gtest.h>

#include <string_view>

namespace dafs {
namespace {

uint32_t Fnv32(std::string_view text) {
  return ExtendFnv32(kFnv32Start, std::as_bytes(std::span<const char>(text)));
}

// The values of the authors of FNV-1a.
TEST(Fnv, MatchesTheKnownValues) {
  EXPECT_EQ(Fnv64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(Fnv64("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(Fnv64("foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(Fnv32(""), 0x811c9dc5u);
  EXPECT_EQ(Fnv32("a"), 0xe40c292cu);
  EXPECT_EQ(Fnv32("foobar"), 0xbf9cf968u);
}

TEST(Fnv, TakesBytesAboveAsciiAsUnsigned) {
  EXPECT_EQ(Fnv64("owner\xff"), 0x97465a19fd1ef6b1u);
  EXPECT_EQ(Fnv32("owner\xff"), 0x7c9ce7b1u);
}

TEST(Fnv, AHashOfPartsIsTheHashOfTheWhole) {
  const std::string_view text = "foobar";
  const auto bytes = std::as_bytes(std::span<const char>(text));
  EXPECT_EQ(ExtendFnv32(ExtendFnv32(kFnv32Start, bytes.first(2)), bytes.subspan(2)), Fnv32(text));
}

}  // namespace
}  // namespace dafs
