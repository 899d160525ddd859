// Big-endian integers in byte buffers: all iWARP headers are in network order.
// Pure. The caller must check that the buffer is long enough.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dafs::dat::iwarp {

template <typename T>
inline void PutBig(std::byte* to, T value) {
  for (size_t i = sizeof(T); i-- > 0;) {
    to[i] = static_cast<std::byte>(value & 0xff);
    if constexpr (sizeof(T) > 1) value = static_cast<T>(value >> 8);
  }
}

template <typename T>
inline T GetBig(const std::byte* from) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = (value << 8) | static_cast<uint64_t>(from[i]);
  return static_cast<T>(value);
}

}  // namespace dafs::dat::iwarp
