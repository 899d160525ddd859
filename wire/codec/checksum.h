// The Fletcher checksum of the protocol, over one or several buffers.
// Spec: WIRE section 6 (R14); draft 3.2.5. Values; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/protocol/types.h"

namespace dafs::wire {

// Sums bytes that arrive in pieces as if they were one byte string.
//
//     Fletcher sum(order);
//     for (auto piece : pieces) sum.Add(piece);
//     Checksum c = sum.Result();
class Fletcher {
 public:
  explicit Fletcher(ByteOrder order) : order_(order) {}

  // Appends `bytes`. Any length, including an odd one, and any alignment are allowed.
  void Add(std::span<const std::byte> bytes);

  // Returns the checksum of all bytes added so far. If their number is odd, a zero byte
  // completes the last word.
  Checksum Result() const;

 private:
  void AddWord(uint32_t word);

  ByteOrder order_;
  uint32_t s1_ = 0x0101;
  uint32_t s2_ = 0;
  bool odd_ = false;  // `pending_` holds the first half of a word
  uint8_t pending_ = 0;
};

// The checksum of one byte string: direct_checksum.
Checksum ComputeChecksum(std::span<const std::byte> bytes, ByteOrder order);

// The message_checksum of `message`, computed as if its own four bytes (24 .. 27) were zero.
// `message` is a whole request or response, including padding, of at least 40 bytes.
Checksum MessageChecksum(std::span<const std::byte> message, ByteOrder order);

}  // namespace dafs::wire
