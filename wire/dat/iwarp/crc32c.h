// CRC32C (Castagnoli), as MPA carries it in every FPDU. Spec: RFC 5044, 4.4; RFC 3720, B.4.
// Pure and thread-safe. Uses the processor's CRC instruction where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dafs::dat::iwarp {

// The CRC of what `crc` covers followed by `data`; `crc` is 0 for nothing yet.
uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> data);

// The same by table alone: what ExtendCrc32c falls back to, here for comparison in tests.
uint32_t ExtendCrc32cByTable(uint32_t crc, std::span<const std::byte> data);

// Whether ExtendCrc32c uses the processor's instruction.
bool HasHardwareCrc32c();

}  // namespace dafs::dat::iwarp
