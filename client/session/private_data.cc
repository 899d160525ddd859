#include "client/session/private_data.h"

#include <cstring>

#include "wire/protocol/header.h"
#include "wire/protocol/invalidation.h"

namespace dafs::client {
namespace {

void Store(uint32_t value, wire::ByteOrder order, std::byte* at) {
  for (unsigned i = 0; i < 4; ++i) {
    unsigned shift = order == wire::ByteOrder::kLittle ? 8 * i : 24 - 8 * i;
    at[i] = static_cast<std::byte>(value >> shift);
  }
}

}  // namespace

absl::InlinedVector<std::byte, 24> EncodePrivateData(const PrivateData& data,
                                                     wire::ByteOrder order) {
  absl::InlinedVector<std::byte, 24> bytes(wire::kInvalidationAt);
  Store(wire::kRequestMagic, order, &bytes[0]);
  std::memcpy(&bytes[4], data.client_instance_differentiator.data(), 4);
  std::memcpy(&bytes[8], data.client_session_differentiator.data(), 4);
  Store(data.channel_type, order, &bytes[12]);
  if (data.invalidation) {
    bytes.insert(bytes.end(), wire::kInvalidation.begin(), wire::kInvalidation.end());
  }
  return bytes;
}

}  // namespace dafs::client
