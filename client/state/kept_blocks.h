// The memory of written data that is kept until a COMMIT has made it safe: blocks for copies, which
// are reused, and buffers of callers.
// Not thread-safe: Uncommitted calls it under its mutex. The bytes of a part may be filled without
// the mutex by the thread that has reserved it. Any thread may give up its reference to a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dafs::client {

struct KeptBlock {
  const std::byte* bytes = nullptr;
  std::unique_ptr<std::byte[]> room;   // owned memory for copies, or null
  std::shared_ptr<const void> memory;  // keeps the caller's buffer alive
  uint32_t used = 0;                   // bytes used of `room`
  bool unused = false;                 // since the last TakeUnused
};

// A part of a block.
struct KeptPart {
  std::shared_ptr<KeptBlock> block;  // shared by the ranges in it and by those who read it
  uint32_t at = 0;                   // offset in the block
  uint32_t size = 0;

  std::span<const std::byte> bytes() const { return {block->bytes + at, size}; }
  // Removes `count` bytes, fewer than `size`, from the front.
  void RemoveFront(uint32_t count) {
    at += count;
    size -= count;
  }
};

// The blocks for copies.
class KeptBlocks {
 public:
  explicit KeptBlocks(size_t most_bytes) : most_bytes_(most_bytes) {}
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;

  // Adds parts for `bytes` bytes to `parts`. False: there is no room; `parts` then has some of it.
  bool Reserve(size_t bytes, std::vector<KeptPart>& parts);
  // Takes out the blocks that no copy has used since the last call, to be freed by the caller.
  std::vector<std::shared_ptr<KeptBlock>> TakeUnused();

  size_t bytes() const;  // of the blocks that are in use
  size_t memory_bytes() const { return blocks_.size() * kBlockBytes; }

 private:
  static constexpr uint32_t kBlockBytes = 256 << 10;

  std::shared_ptr<KeptBlock> NextBlock();

  const size_t most_bytes_;
  std::shared_ptr<KeptBlock> filling_;  // the block that is being filled
  std::vector<std::shared_ptr<KeptBlock>> blocks_;
};

}  // namespace dafs::client
