// The memory of a pool's buffers, in blocks. A block becomes resident and registered when one of
// its buffers is needed and no resident buffer is free. Its memory returns to the system after none
// of its buffers was used for a while (ReleaseUnused). The lowest free block is used first: then
// few blocks are in use, and these keep their pages.
//
// Order in the slab: large read targets, small read targets, write sources, the reserve. The
// reserve is one write source that is always resident. To free memory, this machine may have to
// write dirty pages back to the mount; the reserve receives them from the kernel without new
// memory.
//
// Belongs to the pool's thread. Take() may make a block resident, which takes 0.2 to 1 ms, plus the
// time that the device needs to register it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/memory/buffer_slab.h"
#include "wire/dat/dat.h"

namespace dafs::client {

namespace internal {

enum class BufferKind : uint8_t { kLargeRead, kSmallRead, kWrite };
inline constexpr size_t kBufferKinds = 3;

struct BufferBlock;

struct Buffer {
  std::byte* start = nullptr;  // of the header room
  uint32_t payload_bytes = 0;
  BufferBlock* block = nullptr;
  bool leased = false;  // a BufferLease holds it
  bool sealed = false;  // BufferLease::Seal: its content is final
  uint32_t pins = 0;    // of BufferPin: the server may access it
  uint32_t keeps = 0;   // holders of its uncommitted data (BufferPool::Keep)
  Buffer* next_free = nullptr;
};

struct BufferBlock {
  std::span<std::byte> memory;
  BufferKind kind = BufferKind::kLargeRead;
  bool reserve = false;
  bool resident = false;
  bool used = false;                            // since the last ReleaseUnused
  absl::Time last_used = absl::InfinitePast();  // the last ReleaseUnused that found it in use
  uint32_t number = 0;                          // among the blocks of its kind
  uint32_t out = 0;                             // buffers that are not free
  Buffer* free = nullptr;
  std::unique_ptr<dat::Region> region;
};

}  // namespace internal

class BufferBlocks {
 public:
  struct Sizes {
    size_t bytes = 0;          // of the slab; rounded up to pages
    uint32_t large_bytes = 0;  // whole pages
    uint32_t small_bytes = 0;
    bool keeps_reserve = true;
    bool lock_reserve = false;
    std::string name;                                          // "server:/export", for the log
    std::function<std::span<std::byte>(size_t)> write_memory;  // BufferPoolOptions
  };
  // kResourceExhausted: no memory. `bytes` holds at least one large buffer in each half.
  static absl::StatusOr<std::unique_ptr<BufferBlocks>> Create(const Sizes& sizes);
  BufferBlocks(const BufferBlocks&) = delete;
  BufferBlocks& operator=(const BufferBlocks&) = delete;

  // After a block could not be made resident, the next attempt waits until this many requests have
  // found no free buffer. ReleaseUnused and Register end that wait.
  static constexpr uint32_t kGrowAgainAfter = 1024;

  // Returns a free buffer; null: all are in use, or no more can be made resident (why_not).
  internal::Buffer* Take(internal::BufferKind kind);
  // Returns a write source to read the next request of the kernel into. It does not count as used
  // until MarkUsed. It is the reserve while no other write source is resident.
  internal::Buffer* TakeToListen();
  // Records that a write could not be kept because it was in the reserve: the next TakeToListen
  // avoids the reserve.
  void WantMoreThanReserve() { reserve_was_short_ = true; }
  static void MarkUsed(internal::Buffer& buffer) { buffer.block->used = true; }
  void GiveBack(internal::Buffer& buffer);

  // Whether a buffer of this kind is resident, so that waiting for one is useful.
  bool HasResident(internal::BufferKind kind) const {
    return resident_[Index(kind)] > 0 || kind == internal::BufferKind::kWrite;
  }
  // Why the last block could not be made resident.
  const absl::Status& why_not() const { return why_not_; }

  // Registers the resident blocks, and later those that become resident. Errors as of
  // Domain::Register.
  absl::Status Register(dat::Domain& domain, bool access_by_windows);
  void Deregister();

  // Releases the memory of blocks that were unused since `now - unused_for`. Returns whether a
  // block other than the reserve is still resident.
  bool ReleaseUnused(absl::Time now, absl::Duration unused_for);
  bool AnyResident() const;

  BufferSlab& slab() { return *slab_; }
  const std::shared_ptr<BufferSlab>& shared_slab() const { return slab_; }
  size_t bytes() const { return bytes_; }
  size_t resident_bytes() const { return resident_bytes_; }
  uint32_t buffers() const { return static_cast<uint32_t>(buffers_.size()); }
  uint32_t write_buffers() const {
    return blocks_of_[Index(internal::BufferKind::kWrite)].count + 1;
  }

 private:
  // The blocks of one kind, without the reserve: `count` blocks from blocks_[first] on.
  struct Range {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  using Bits = std::vector<uint64_t>;  // one for each block of a kind

  BufferBlocks(std::shared_ptr<BufferSlab> slab, const Sizes& sizes);
  static size_t Index(internal::BufferKind kind) { return static_cast<size_t>(kind); }
  void Carve(internal::BufferKind kind, std::span<std::byte> part, uint32_t payload_bytes,
             uint32_t buffers_of_block);
  void AddBlock(internal::BufferKind kind, std::span<std::byte> memory, uint32_t payload_bytes);
  void PrepareReserve(const Sizes& sizes);
  internal::BufferBlock* FindFree(internal::BufferKind kind);
  bool MakeResident(internal::BufferBlock& block);
  absl::Status RegisterBlock(internal::BufferBlock& block);
  void GiveMemoryBack(std::span<internal::BufferBlock> blocks, bool shared);

  const std::string name_;
  const std::shared_ptr<BufferSlab> slab_;
  std::vector<internal::Buffer> buffers_;
  std::vector<internal::BufferBlock> blocks_;  // by address in each memory; the reserve is the last
  const size_t bytes_;                         // of all buffers
  bool writes_are_shared_ = false;             // the write buffers are in memory of write_memory
  bool reserve_was_short_ = false;             // until the next TakeToListen
  std::array<Range, internal::kBufferKinds> blocks_of_;
  std::array<Bits, internal::kBufferKinds> ready_;  // resident, with a free buffer
  std::array<Bits, internal::kBufferKinds> cold_;   // not resident
  std::array<uint32_t, internal::kBufferKinds> resident_ = {};
  size_t resident_bytes_ = 0;
  bool may_grow_ = true;  // no block failed to become resident recently
  uint32_t denied_ = 0;   // requests since the failure that found no free buffer
  absl::Status why_not_;
  dat::Domain* domain_ = nullptr;
  bool by_windows_ = false;
};

}  // namespace dafs::client
