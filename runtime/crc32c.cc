#include "runtime/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <climits>

namespace dafs {

uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> data) {
  uint32_t state = ~crc;  // ISA-L inverts neither its start nor its result
  while (!data.empty()) {
    const int size = static_cast<int>(std::min<size_t>(data.size(), INT_MAX));
    // ISA-L declares the buffer as writable, but only reads it.
    auto* const bytes =
        const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data.data()));
    state = crc32_iscsi(bytes, size, state);
    data = data.subspan(static_cast<size_t>(size));
  }
  return ~state;
}

}  // namespace dafs
