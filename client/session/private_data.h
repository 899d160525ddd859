// The private data of a connection request: 16 bytes of the draft, and 8 of this implementation.
// The server learns the client, session and channel type from them before the first message. Spec:
// D.8, E.9; WIRE 11.1 (R16, R57).
// Values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct PrivateData {
  std::array<uint8_t, 4> client_instance_differentiator{};
  std::array<uint8_t, 4> client_session_differentiator{};
  uint32_t channel_type = 0;  // wire::kChannel...
  bool invalidation = false;  // wire/protocol/invalidation.h
};

// The bytes, with magic and channel_type in `order`.
absl::InlinedVector<std::byte, 24> EncodePrivateData(const PrivateData& data,
                                                     wire::ByteOrder order);

}  // namespace dafs::client
