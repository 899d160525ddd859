// CRC32C (Castagnoli): the checksum of MPA's FPDUs, and of records in shared memory and in files.
// Spec: RFC 5044, 4.4; RFC 3720, B.4.
// Pure and thread-safe. ISA-L chooses the processor's instructions at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dafs {

// Extends `crc` by `data` and returns the new CRC. `crc` is 0 at the start.
uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> data);

}  // namespace dafs
