#include "client/memory/buffer_blocks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/memory/pages.h"
#include "runtime/check.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"

namespace dafs::client {

using internal::Buffer;
using internal::BufferBlock;
using internal::BufferKind;
using internal::kBufferKinds;

namespace {

constexpr size_t kHugePage = BufferSlab::kHugePage;
// In a smaller slab huge pages would be a large part of it.
constexpr size_t kLeastForHugePages = 8 * kHugePage;

// Smaller buffers share a block, so that there are few regions.
constexpr size_t kLeastLargeBlock = size_t{1} << 20;

void Set(std::vector<uint64_t>& bits, uint32_t at) { bits[at / 64] |= uint64_t{1} << (at % 64); }
void Clear(std::vector<uint64_t>& bits, uint32_t at) {
  bits[at / 64] &= ~(uint64_t{1} << (at % 64));
}

// The index of the first set bit; `bits.size() * 64` if none is set.
uint32_t First(const std::vector<uint64_t>& bits) {
  uint32_t at = 0;
  for (const uint64_t word : bits) {
    if (word != 0) return at + static_cast<uint32_t>(std::countr_zero(word));
    at += 64;
  }
  return at;
}

// Called before the data path uses the memory: a page fault there costs 2.4 us. A kernel before
// 5.14 does not support the advice; there the pages fault at first use.
bool Populate(std::span<std::byte> memory) {
  return madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BufferBlocks>> BufferBlocks::Create(const Sizes& sizes) {
  Sizes rounded = sizes;
  rounded.bytes = RoundUp(sizes.bytes, 2 * PageBytes());
  ASSIGN_OR_RETURN(std::shared_ptr<BufferSlab> slab, BufferSlab::Map(rounded.bytes));
  return absl::WrapUnique(new BufferBlocks(std::move(slab), rounded));
}

BufferBlocks::BufferBlocks(std::shared_ptr<BufferSlab> slab, const Sizes& sizes)
    : name_(sizes.name), slab_(std::move(slab)), bytes_(sizes.bytes) {
  // Each part begins on a huge page, so that a few buffers use no more huge pages than they need.
  const size_t unit = sizes.bytes >= kLeastForHugePages ? kHugePage : PageBytes();
  const size_t large = PageBytes() + sizes.large_bytes;
  size_t write_part = sizes.bytes / 2 / unit * unit;
  if (write_part < large) write_part = sizes.bytes / 2;
  const size_t small = PageBytes() + sizes.small_bytes;
  // Half of the read targets' memory in large buffers, at least one; the rest in small ones.
  const size_t larges = std::max(write_part / 2 / large, size_t{1});
  const size_t small_at = std::min(RoundUp(larges * large, unit), write_part);
  const size_t writes = (sizes.bytes - write_part) / large;
  // Leases point into the vectors, so they never grow later.
  const size_t smalls = (write_part - small_at) / small;
  buffers_.reserve(larges + smalls + writes);
  const auto in_small = static_cast<uint32_t>(std::max(kHugePage / small, size_t{1}));
  const auto in_large = static_cast<uint32_t>(std::max(kLeastLargeBlock / large, size_t{1}));
  blocks_.reserve(larges / in_large + smalls / in_small + writes / in_large + kBufferKinds + 1);
  const std::span<std::byte> memory = slab_->memory();
  Carve(BufferKind::kLargeRead, memory.first(larges * large), sizes.large_bytes, in_large);
  Carve(BufferKind::kSmallRead, memory.subspan(small_at, smalls * small), sizes.small_bytes,
        in_small);
  std::span<std::byte> write_memory;
  if (sizes.write_memory != nullptr) write_memory = sizes.write_memory(writes * large);
  writes_are_shared_ = !write_memory.empty();
  // The address space of that part of the slab stays unused then.
  if (!writes_are_shared_) write_memory = memory.subspan(write_part, writes * large);
  Carve(BufferKind::kWrite, write_memory.first((writes - 1) * large), sizes.large_bytes, in_large);
  AddBlock(BufferKind::kWrite, write_memory.last(large), sizes.large_bytes);
  PrepareReserve(sizes);
}

void BufferBlocks::Carve(BufferKind kind, std::span<std::byte> part, uint32_t payload_bytes,
                         uint32_t buffers_of_block) {
  Range& range = blocks_of_[Index(kind)];
  range.first = static_cast<uint32_t>(blocks_.size());
  const size_t most = buffers_of_block * (PageBytes() + payload_bytes);
  for (; !part.empty(); part = part.subspan(std::min(most, part.size()))) {
    AddBlock(kind, part.first(std::min(most, part.size())), payload_bytes);
    blocks_.back().number = range.count++;
  }
  ready_[Index(kind)].assign((range.count + 63) / 64, 0);
  cold_[Index(kind)].assign((range.count + 63) / 64, 0);
  for (uint32_t i = 0; i < range.count; ++i) Set(cold_[Index(kind)], i);
}

void BufferBlocks::AddBlock(BufferKind kind, std::span<std::byte> memory, uint32_t payload_bytes) {
  BufferBlock& block = blocks_.emplace_back();
  block.memory = memory;
  block.kind = kind;
  const size_t stride = PageBytes() + payload_bytes;
  // Last buffer first, because the free list is last in, first out.
  for (size_t at = memory.size(); at >= stride; at -= stride) {
    Buffer& buffer = buffers_.emplace_back();
    buffer.start = memory.data() + at - stride;
    buffer.payload_bytes = payload_bytes;
    buffer.block = &block;
    buffer.next_free = block.free;
    block.free = &buffer;
  }
}

// Uses small pages: the reserve is used when little else is, and a huge page would double its size.
void BufferBlocks::PrepareReserve(const Sizes& sizes) {
  BufferBlock& reserve = blocks_.back();
  reserve.reserve = true;
  reserve.resident = true;
  resident_bytes_ += reserve.memory.size();
  madvise(reserve.memory.data(), reserve.memory.size(), MADV_NOHUGEPAGE);
  if (sizes.keeps_reserve) Populate(reserve.memory);
  if (sizes.lock_reserve) mlock(reserve.memory.data(), reserve.memory.size());
}

// ---- Buffers ---------------------------------------------------------------------------------

BufferBlock* BufferBlocks::FindFree(BufferKind kind) {
  const Range& range = blocks_of_[Index(kind)];
  if (const uint32_t ready = First(ready_[Index(kind)]); ready < range.count) {
    return &blocks_[range.first + ready];
  }
  if (may_grow_ || resident_[Index(kind)] == 0 || ++denied_ == kGrowAgainAfter) {
    denied_ = 0;
    const uint32_t cold = First(cold_[Index(kind)]);
    if (cold < range.count && MakeResident(blocks_[range.first + cold])) {
      return &blocks_[range.first + cold];
    }
  }
  BufferBlock& reserve = blocks_.back();
  return kind == BufferKind::kWrite && reserve.free != nullptr ? &reserve : nullptr;
}

Buffer* BufferBlocks::Take(BufferKind kind) {
  BufferBlock* block = FindFree(kind);
  if (block == nullptr) return nullptr;
  block->used = true;
  Buffer* buffer = block->free;
  block->free = std::exchange(buffer->next_free, nullptr);
  ++block->out;
  if (block->free == nullptr && !block->reserve) Clear(ready_[Index(kind)], block->number);
  return buffer;
}

Buffer* BufferBlocks::TakeToListen() {
  BufferBlock& reserve = blocks_.back();
  const bool enough = !std::exchange(reserve_was_short_, false);
  if (enough && resident_[Index(BufferKind::kWrite)] == 0 && reserve.free != nullptr) {
    ++reserve.out;
    return std::exchange(reserve.free, nullptr);
  }
  const uint32_t ready = First(ready_[Index(BufferKind::kWrite)]);
  const Range& range = blocks_of_[Index(BufferKind::kWrite)];
  const bool used = ready < range.count && blocks_[range.first + ready].used;
  Buffer* buffer = Take(BufferKind::kWrite);
  if (buffer != nullptr) buffer->block->used = used;
  return buffer;
}

void BufferBlocks::GiveBack(Buffer& buffer) {
  BufferBlock& block = *buffer.block;
  // Last in, first out: the buffer used last is in the CPU caches.
  buffer.next_free = std::exchange(block.free, &buffer);
  --block.out;
  if (!block.reserve) Set(ready_[Index(block.kind)], block.number);
}

// ---- Memory ----------------------------------------------------------------------------------

bool BufferBlocks::MakeResident(BufferBlock& block) {
  absl::Status status;
  if (!Populate(block.memory)) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", block.memory.size(), " bytes: ", std::strerror(errno)));
  } else if (domain_ != nullptr) {
    status = RegisterBlock(block);
  }
  if (!status.ok()) {
    if (may_grow_) {
      LogWarning(absl::StrCat(name_, ": no further data buffers: ", status.message(),
                              "; requests wait for the ", resident_bytes_,
                              " bytes of resident buffers until more memory is available"));
    }
    why_not_ = std::move(status);
    may_grow_ = false;
    return false;
  }
  may_grow_ = true;
  block.resident = true;
  Clear(cold_[Index(block.kind)], block.number);
  Set(ready_[Index(block.kind)], block.number);
  ++resident_[Index(block.kind)];
  resident_bytes_ += block.memory.size();
  return true;
}

absl::Status BufferBlocks::RegisterBlock(BufferBlock& block) {
  dat::Access access =
      block.kind == BufferKind::kWrite ? dat::Access::kRemoteRead : dat::Access::kRemoteWrite;
  if (by_windows_) access = dat::Access::kWindows;
  ASSIGN_OR_RETURN(block.region, domain_->Register(block.memory, access));
  return absl::OkStatus();
}

absl::Status BufferBlocks::Register(dat::Domain& domain, bool access_by_windows) {
  Deregister();
  domain_ = &domain;
  by_windows_ = access_by_windows;
  may_grow_ = true;
  for (BufferBlock& block : blocks_) {
    if (block.resident) RETURN_IF_ERROR(RegisterBlock(block));
  }
  return absl::OkStatus();
}

void BufferBlocks::Deregister() {
  for (BufferBlock& block : blocks_) block.region.reset();
  domain_ = nullptr;
}

bool BufferBlocks::AnyResident() const {
  return std::ranges::any_of(resident_, [](uint32_t count) { return count > 0; });
}

bool BufferBlocks::ReleaseUnused(absl::Time now, absl::Duration unused_for) {
  may_grow_ = true;
  bool released = false;
  for (BufferBlock& block : blocks_) {
    if (!block.resident || block.reserve) continue;
    if (std::exchange(block.used, false) || block.out > 0) {
      block.last_used = now;
    } else if (now - block.last_used >= unused_for) {
      block.region.reset();
      block.resident = false;
      Clear(ready_[Index(block.kind)], block.number);
      Set(cold_[Index(block.kind)], block.number);
      --resident_[Index(block.kind)];
      resident_bytes_ -= block.memory.size();
      released = true;
    }
  }
  if (released && writes_are_shared_) {
    const uint32_t first = blocks_of_[Index(BufferKind::kWrite)].first;
    GiveMemoryBack(std::span(blocks_).first(first), /*shared=*/false);
    GiveMemoryBack(std::span(blocks_).subspan(first), /*shared=*/true);
  } else if (released) {
    GiveMemoryBack(blocks_, /*shared=*/false);
  }
  return AnyResident();
}

// Releases the pages of each run of blocks that are not resident. A neighbouring resident block may
// share a huge page with the run; that page is left alone, so that it is not split.
void BufferBlocks::GiveMemoryBack(std::span<BufferBlock> blocks, bool shared) {
  if (blocks.empty()) return;
  std::byte* const memory = blocks.front().memory.data();
  const size_t unit = shared ? PageBytes() : kHugePage;
  const auto offset = [&](const BufferBlock& block) {
    return static_cast<size_t>(block.memory.data() - memory);
  };
  for (size_t i = 0; i < blocks.size();) {
    if (blocks[i].resident) {
      ++i;
      continue;
    }
    size_t from = offset(blocks[i]);
    if (i > 0) from = RoundUp(from, unit);
    size_t to = from;
    for (; i < blocks.size() && !blocks[i].resident; ++i) {
      to = offset(blocks[i]) + blocks[i].memory.size();
    }
    if (i < blocks.size()) {
      to = offset(blocks[i]);
      if (!blocks[i].reserve) to = to / unit * unit;
    }
    if (from < to) madvise(memory + from, to - from, shared ? MADV_REMOVE : MADV_DONTNEED);
  }
}

}  // namespace dafs::client
