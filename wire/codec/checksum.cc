#include "wire/codec/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dafs::wire {
namespace {

// Fletcher's sums modulo 65535, with 65535 instead of 0 as the representative of the zero class.
// With one conditional subtraction per step, a sum that was positive never becomes 0 (R14).
uint32_t Reduce(uint64_t sum) {
  return sum == 0 ? 0 : static_cast<uint32_t>((sum - 1) % 65535 + 1);
}

// Sums run over eight lanes of words: lane l has the words l, l+8, l+16, ... Let a[l] be the plain
// sum of a lane, b[l] the sum of its running sums, and n the number of groups of eight words. Then
// S1 and S2 grow by
//     sum of words                    = sum a[l]
//     sum of (words left) x (word)    = sum 8 b[l] - l a[l]
// The lanes fit in 32 bits for up to 256 groups.
constexpr size_t kLanes = 8;
constexpr size_t kGroupBytes = kLanes * 2;
constexpr size_t kMostGroups = 256;

using Words = uint16_t __attribute__((vector_size(16)));
using Sums = uint32_t __attribute__((vector_size(32)));

static_assert(std::endian::native == std::endian::little);

}  // namespace

// The sums always use little-endian words, whatever the session's order. Swapping the bytes of
// every word multiplies both sums by 256 modulo 65535, which swaps the bytes of the sums (section
// 6: the same bytes on the wire in either order). Result() swaps them for big-endian.
void Fletcher::AddWord(uint32_t word) {
  s1_ = Reduce(s1_ + word);
  s2_ = Reduce(s2_ + s1_);
}

void Fletcher::Add(std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  if (odd_ && left > 0) {
    AddWord(static_cast<uint32_t>(pending_) | static_cast<uint32_t>(*at) << 8);
    odd_ = false;
    ++at;
    --left;
  }
  while (left >= kGroupBytes) {
    const size_t groups = std::min(left / kGroupBytes, kMostGroups);
    Sums a = {};
    Sums b = {};
    for (size_t i = 0; i < groups; ++i, at += kGroupBytes) {
      Words words;
      std::memcpy(&words, at, sizeof words);
      a += __builtin_convertvector(words, Sums);
      b += a;
    }
    left -= groups * kGroupBytes;
    uint64_t gain1 = 0;
    uint64_t gain2 = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      gain1 += a[lane];
      gain2 += kLanes * uint64_t{b[lane]} - lane * uint64_t{a[lane]};
    }
    s2_ = Reduce(s2_ + uint64_t{s1_} * groups * kLanes + gain2);
    s1_ = Reduce(s1_ + gain1);
  }
  for (; left >= 2; left -= 2, at += 2) {
    AddWord(static_cast<uint32_t>(at[0]) | static_cast<uint32_t>(at[1]) << 8);
  }
  if (left == 1) {
    pending_ = static_cast<uint8_t>(*at);
    odd_ = true;
  }
}

Checksum Fletcher::Result() const {
  Fletcher done = *this;
  if (done.odd_) done.AddWord(done.pending_);
  Checksum sum = {static_cast<uint16_t>(done.s2_), static_cast<uint16_t>(done.s1_)};
  if (order_ == ByteOrder::kBig) {
    sum.s2 = __builtin_bswap16(sum.s2);
    sum.s1 = __builtin_bswap16(sum.s1);
  }
  return sum;
}

Checksum ComputeChecksum(std::span<const std::byte> bytes, ByteOrder order) {
  Fletcher sum(order);
  sum.Add(bytes);
  return sum.Result();
}

Checksum MessageChecksum(std::span<const std::byte> message, ByteOrder order) {
  constexpr std::byte kZeros[4] = {};
  Fletcher sum(order);
  sum.Add(message.first(24));
  sum.Add(kZeros);
  sum.Add(message.subspan(28));
  return sum.Result();
}

}  // namespace dafs::wire
