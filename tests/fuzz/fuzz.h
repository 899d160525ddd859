// Code that the fuzz targets share. Each target is one decoder entry; see scripts/fuzz.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "wire/codec/codec.h"

// A violated property aborts, so that libFuzzer reports it as a finding.
#define FUZZ_CHECK(condition)                                              \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                        \
    }                                                                      \
  } while (false)

namespace dafs::wire::fuzz {

// Returns the input as a message that passes the framing checks: its size cut to a multiple of 8,
// the length word at `length_at` corrected, the magic set to one of the two. The memory ends where
// the message does. Returns an empty vector if the input is shorter than a header.
inline std::vector<std::byte> Framed(std::span<const uint8_t> input, uint32_t magic,
                                     size_t length_at, ByteOrder& order) {
  if (input.size() < kHeaderSize) return {};
  const auto* bytes = reinterpret_cast<const std::byte*>(input.data());
  std::vector<std::byte> message(bytes, bytes + input.size() / 8 * 8);
  uint32_t first = 0;
  std::memcpy(&first, message.data(), 4);
  const bool swap = first == __builtin_bswap32(magic);
  order = swap ? ByteOrder::kBig : ByteOrder::kLittle;
  uint32_t length = static_cast<uint32_t>(message.size());
  if (swap) {
    magic = __builtin_bswap32(magic);
    length = __builtin_bswap32(length);
  }
  std::memcpy(message.data(), &magic, 4);
  std::memcpy(message.data() + length_at, &length, 4);
  return message;
}

}  // namespace dafs::wire::fuzz
