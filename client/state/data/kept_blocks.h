// The memory of written data that is kept until a COMMIT has made it safe: blocks for copies, which
// are reused, and buffers of callers. The blocks are of this process, or in memory that outlives it
// (client/state/records/state_recorder.h).
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
  std::byte* room = nullptr;           // memory for copies, or null
  std::unique_ptr<std::byte[]> owned;  // `room`, unless it is of the memory of UseMemory
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

  // Makes the blocks in `memory`, which outlives this. Before the first is made.
  void UseMemory(std::span<std::byte> memory);

  // Adds parts for `bytes` bytes to `parts`. False: there is no room; `parts` then has some of it.
  bool Reserve(size_t bytes, std::vector<KeptPart>& parts);
  // Takes out the blocks that no copy has used since the last call. The caller gives them to
  // FreeMemory, which may take long and needs no mutex, and then to Return.
  std::vector<std::shared_ptr<KeptBlock>> TakeUnused();
  static void FreeMemory(KeptBlock& block);
  void Return(const KeptBlock& block);

  size_t bytes() const;  // of the blocks that are in use
  size_t memory_bytes() const { return blocks_.size() * kBlockBytes; }

 private:
  static constexpr uint32_t kBlockBytes = 256 << 10;

  std::shared_ptr<KeptBlock> NextBlock();

  const size_t most_bytes_;
  bool uses_memory_ = false;            // of UseMemory
  std::vector<std::byte*> places_;      // in it, for blocks to be made
  std::shared_ptr<KeptBlock> filling_;  // the block that is being filled
  std::vector<std::shared_ptr<KeptBlock>> blocks_;
};

}  // namespace dafs::client
