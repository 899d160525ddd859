// Stores the headers of messages, and their checksum. Spec: WIRE section 6; draft 6.1.1 to 6.1.3.
// For the .cc files of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/protocol/header.h"
#include "wire/protocol/types.h"

namespace dafs::wire::internal {

// Each stores the 40 bytes of a header whose checksum is zero. `length`: bytes of the message.
void StoreRequestHeader(const RequestHeader& header, uint32_t length, ByteOrder order,
                        std::span<std::byte> out);
void StoreResponseHeader(const ResponseHeader& header, uint32_t length, ByteOrder order,
                         std::span<std::byte> out);
// `sum` is that of the message whose header `out` begins with.
void StoreChecksum(std::span<std::byte> out, Checksum sum, ByteOrder order);

}  // namespace dafs::wire::internal
