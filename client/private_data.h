// The private data of a connection request: 16 bytes that tell the server, before the first
// message, whose channel this will be. Spec: D.8, E.9; WIRE 11.1 (R16, R57). Values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/types.h"

namespace dafs::client {

struct PrivateData {
  std::array<uint8_t, 4> client_instance_differentiator{};
  std::array<uint8_t, 4> client_session_differentiator{};
  uint32_t channel_type = 0;  // wire::kChannel...
};

// The bytes, with magic and channel_type in `order`.
std::array<std::byte, 16> EncodePrivateData(const PrivateData& data, wire::ByteOrder order);

}  // namespace dafs::client
