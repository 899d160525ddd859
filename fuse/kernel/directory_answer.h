// The answer to a READDIR or READDIRPLUS: entries in sequence, up to the requested size. Belongs to
// one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {

class DirectoryAnswer {
 public:
  explicit DirectoryAnswer(uint32_t limit_bytes) : limit_(limit_bytes) {}

  // Whether an entry with this name still fits.
  bool Fits(std::string_view name, bool plus) const;
  // Adds an entry, which must fit. `offset`: where the next READDIR continues. `type`: S_IFMT bits.
  void Add(std::string_view name, uint64_t ino, uint32_t type, uint64_t offset);
  // The same for READDIRPLUS. An `entry` of zeros sends only the name.
  void AddPlus(const fuse_entry_out& entry, std::string_view name, uint64_t ino, uint32_t type,
               uint64_t offset);

  bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  // The nodes whose lookup counts this answer increases.
  const std::vector<uint64_t>& counted() const { return counted_; }

 private:
  void Append(const void* data, size_t size);

  const uint32_t limit_;
  std::vector<std::byte> bytes_;
  std::vector<uint64_t> counted_;
};

}  // namespace dafs::fuse
