// FNV-1a: short hashes that are the same in every process and in every version of the programs.
// absl::Hash differs in each process. The values are in files of the server's state directory and
// in names of sockets, so they may not change. They do not withstand an adversary. Pure and
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace dafs {

inline uint64_t Fnv64(std::span<const std::byte> data) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : data) {
    hash = (hash ^ std::to_integer<uint8_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

inline uint64_t Fnv64(std::string_view text) {
  return Fnv64(std::as_bytes(std::span<const char>(text)));
}

// The hash of no bytes, which ExtendFnv32 extends.
inline constexpr uint32_t kFnv32Start = 0x811c9dc5;

// Extends `hash` by `data` and returns the new hash.
inline uint32_t ExtendFnv32(uint32_t hash, std::span<const std::byte> data) {
  for (const std::byte byte : data) {
    hash = (hash ^ std::to_integer<uint8_t>(byte)) * 0x01000193;
  }
  return hash;
}

}  // namespace dafs
