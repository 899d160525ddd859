#include "client/state/data/kept_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace dafs::client {
namespace {

// Makes a block usable to which nothing else refers.
void Reuse(KeptBlock& block) {
  // Orders this after the last use of the bytes by a former owner.
  std::atomic_thread_fence(std::memory_order_acquire);
  block.used = 0;
  block.unused = false;
}

}  // namespace

void KeptBlocks::UseMemory(std::span<std::byte> memory) {
  uses_memory_ = true;
  while (memory.size() >= kBlockBytes) {
    places_.push_back(memory.last(kBlockBytes).data());
    memory = memory.first(memory.size() - kBlockBytes);
  }
}

// Returns an empty block; null if there is no room.
std::shared_ptr<KeptBlock> KeptBlocks::NextBlock() {
  for (std::shared_ptr<KeptBlock>& block : blocks_) {
    if (block.use_count() > 1) continue;
    Reuse(*block);
    return block;
  }
  if ((blocks_.size() + 1) * kBlockBytes > most_bytes_) return nullptr;
  if (uses_memory_ && places_.empty()) return nullptr;
  auto block = std::make_shared<KeptBlock>();
  if (uses_memory_) {
    block->room = places_.back();
    places_.pop_back();
  } else {
    block->owned = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
    block->room = block->owned.get();
  }
  block->bytes = block->room;
  blocks_.push_back(block);
  return block;
}

bool KeptBlocks::Reserve(size_t bytes, std::vector<KeptPart>& parts) {
  // Only blocks_ and filling_ refer to it.
  if (filling_ != nullptr && filling_.use_count() == 2) Reuse(*filling_);
  while (bytes > 0) {
    if (filling_ == nullptr || filling_->used == kBlockBytes) {
      filling_ = nullptr;  // so that NextBlock can return it, if nothing else refers to it
      filling_ = NextBlock();
      if (filling_ == nullptr) return false;
    }
    KeptPart part;
    part.size = static_cast<uint32_t>(std::min<size_t>(bytes, kBlockBytes - filling_->used));
    part.block = filling_;
    part.at = filling_->used;
    filling_->used += part.size;
    bytes -= part.size;
    parts.push_back(std::move(part));
  }
  return true;
}

size_t KeptBlocks::bytes() const {
  size_t used = 0;
  for (const std::shared_ptr<KeptBlock>& block : blocks_) {
    used += block.use_count() > (block == filling_ ? 2 : 1) ? 1 : 0;
  }
  return used * kBlockBytes;
}

std::vector<std::shared_ptr<KeptBlock>> KeptBlocks::TakeUnused() {
  std::vector<std::shared_ptr<KeptBlock>> taken;
  if (filling_ != nullptr && filling_.use_count() == 2) filling_ = nullptr;
  std::erase_if(blocks_, [&](std::shared_ptr<KeptBlock>& block) {
    if (block.use_count() > 1) return false;
    if (!std::exchange(block->unused, true)) return false;
    taken.push_back(std::move(block));
    return true;
  });
  return taken;
}

void KeptBlocks::FreeMemory(KeptBlock& block) {
  if (block.owned == nullptr) madvise(block.room, kBlockBytes, MADV_REMOVE);
}

void KeptBlocks::Return(const KeptBlock& block) {
  if (block.owned == nullptr) places_.push_back(block.room);
}

}  // namespace dafs::client
