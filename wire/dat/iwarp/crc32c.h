// CRC32C (Castagnoli), which MPA carries in every FPDU. Spec: RFC 5044, 4.4; RFC 3720, B.4.
// Pure and thread-safe. Uses the processor's CRC instruction if it has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dafs::dat::iwarp {

// Extends `crc` by `data` and returns the new CRC. `crc` is 0 at the start.
uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> data);

// The same, computed with a table only: the fallback of ExtendCrc32c, declared for tests.
uint32_t ExtendCrc32cByTable(uint32_t crc, std::span<const std::byte> data);

// Whether ExtendCrc32c uses the processor's instruction.
bool HasHardwareCrc32c();

}  // namespace dafs::dat::iwarp
