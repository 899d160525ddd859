#include "client/state/uncommitted.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <utility>

namespace dafs::client {
namespace {

// The maximum number of ranges of a file: an operation may visit all. A COMMIT is needed beyond it.
constexpr size_t kMostRanges = 4096;
constexpr size_t kSpareFiles = 64;

}  // namespace

Uncommitted::File* Uncommitted::FindFile(const wire::FileHandle& file) const {
  auto it = files_.find(file);
  return it == files_.end() ? nullptr : it->second.get();
}

void Uncommitted::DropIfIdle(const wire::FileHandle& file) {
  auto it = files_.find(file);
  if (it == files_.end()) return;
  File& one = *it->second;
  if (one.needs_commit() || one.writing > 0 || one.rewriting) return;
  if (spare_files_.size() < kSpareFiles) {
    one = File(&range_memory_);
    spare_files_.push_back(std::move(it->second));
  }
  files_.erase(it);
}

// ---- Writing ---------------------------------------------------------------------------------

Uncommitted::File& Uncommitted::FileOf(const wire::FileHandle& file) {
  std::unique_ptr<File>& one = files_[file];
  if (one != nullptr) return *one;
  if (spare_files_.empty()) {
    one = std::make_unique<File>(&range_memory_);
  } else {
    one = std::move(spare_files_.back());
    spare_files_.pop_back();
  }
  return *one;
}

bool Uncommitted::BeginWrite(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  File& one = FileOf(file);
  if (one.rewriting) return false;
  ++one.writing;
  return true;
}

void Uncommitted::EndWrite(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  if (File* one = FindFile(file)) --one->writing;
  DropIfIdle(file);
}

// Reserves `bytes` bytes in blocks, all or nothing.
bool Uncommitted::Reserve(size_t bytes, std::vector<Range>& parts) {
  // Only blocks_ and filling_ refer to it: reuse it.
  if (filling_ != nullptr && filling_.use_count() == 2) {
    std::atomic_thread_fence(std::memory_order_acquire);
    filling_->used = 0;
    filling_->unused = false;
  }
  while (bytes > 0) {
    if (filling_ == nullptr || filling_->used == kBlockBytes) {
      filling_ = nullptr;
      for (std::shared_ptr<Block>& block : blocks_) {
        if (block.use_count() > 1) continue;
        // Orders this after the last use of the bytes by a former owner.
        std::atomic_thread_fence(std::memory_order_acquire);
        block->used = 0;
        block->unused = false;
        filling_ = block;
        break;
      }
      if (filling_ == nullptr) {
        if ((blocks_.size() + 1) * kBlockBytes > most_bytes_) return false;
        filling_ = std::make_shared<Block>();
        filling_->room = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
        filling_->bytes = filling_->room.get();
        blocks_.push_back(filling_);
      }
    }
    Range part;
    part.size = static_cast<uint32_t>(std::min<size_t>(bytes, kBlockBytes - filling_->used));
    part.block = filling_;
    part.at = filling_->used;
    filling_->used += part.size;
    bytes -= part.size;
    parts.push_back(std::move(part));
  }
  return true;
}

bool Uncommitted::Add(const wire::FileHandle& file, const Identity& who, const wire::StateId& open,
                      uint64_t offset, std::span<const std::byte> data,
                      std::shared_ptr<const void> memory, const wire::Verifier& verifier) {
  thread_local std::vector<Range> parts;
  parts.clear();
  const bool copies = memory == nullptr;
  if (!copies) {
    Range whole;
    whole.size = static_cast<uint32_t>(data.size());
    whole.block = std::make_shared<Block>();
    whole.block->bytes = data.data();
    whole.block->memory = std::move(memory);
    parts.push_back(std::move(whole));
  }
  {
    absl::MutexLock lock(&mutex_);
    File* one = FindFile(file);
    const bool fits = one != nullptr && one->ranges.size() < kMostRanges;
    if (!fits || (copies && !Reserve(data.size(), parts))) {
      parts.clear();
      return false;
    }
  }
  if (copies) {
    for (const Range& part : parts) {  // no other thread uses this memory
      std::memcpy(part.block->room.get() + part.at, data.data(), part.size);
      data = data.subspan(part.size);
    }
  }
  absl::MutexLock lock(&mutex_);
  File& one = *FindFile(file);  // the bracket keeps the entry alive
  one.writer.open = open;
  if (!(one.writer.who == who)) one.writer.who = who;
  for (Range& part : parts) {
    part.offset = offset;
    part.verifier = verifier;
    part.number = one.number;
    offset += part.size;
    Cut(one, part.offset, part.end());
    Insert(one, std::move(part));
  }
  parts.clear();
  return true;
}

// Removes [offset, end) from the ranges of a file.
void Uncommitted::Cut(File& file, uint64_t offset, uint64_t end) {
  auto& ranges = file.ranges;
  auto it = ranges.lower_bound(offset);
  if (it != ranges.begin()) {
    Range& before = std::prev(it)->second;
    if (before.end() > end) {  // its middle is removed
      Range tail = before;
      TakeFront(tail, end);
      file.bytes -= before.end() - offset - tail.size;
      before.size = static_cast<uint32_t>(offset - before.offset);
      ranges.emplace_hint(it, tail.offset, std::move(tail));
      return;
    }
    if (before.end() > offset) {
      file.bytes -= before.end() - offset;
      before.size = static_cast<uint32_t>(offset - before.offset);
    }
  }
  while (it != ranges.end() && it->second.end() <= end) {
    file.bytes -= it->second.size;
    it = ranges.erase(it);
  }
  if (it != ranges.end() && it->second.offset < end) {
    auto node = ranges.extract(it);
    file.bytes -= end - node.mapped().offset;
    TakeFront(node.mapped(), end);
    node.key() = end;
    ranges.insert(std::move(node));
  }
}

// Removes the part before `offset`.
void Uncommitted::TakeFront(Range& range, uint64_t offset) {
  const auto gone = static_cast<uint32_t>(offset - range.offset);
  range.offset = offset;
  range.at += gone;
  range.size -= gone;
}

void Uncommitted::Insert(File& file, Range range) {
  auto& ranges = file.ranges;
  file.bytes += range.size;
  auto behind = ranges.lower_bound(range.offset);
  if (behind != ranges.begin()) {
    Range& before = std::prev(behind)->second;
    if (before.end() == range.offset && before.block == range.block &&
        before.at + before.size == range.at && before.verifier == range.verifier &&
        before.number == range.number) {
      before.size += range.size;
      return;
    }
  }
  const uint64_t offset = range.offset;
  ranges.emplace_hint(behind, offset, std::move(range));
}

void Uncommitted::Forget(const wire::FileHandle& file, uint64_t offset, uint64_t end) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return;
  Cut(*one, offset, end);
  DropIfIdle(file);
}

void Uncommitted::NeedCommit(const wire::FileHandle& file, const Identity& who) {
  absl::MutexLock lock(&mutex_);
  File& one = FileOf(file);
  if (!one.needs_commit()) one.writer = {who, wire::StateId()};
  one.synced = one.number;
}

void Uncommitted::Drop(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return;
  one->ranges.clear();
  one->bytes = 0;
  one->synced = 0;
  DropIfIdle(file);
}

// ---- Committing ------------------------------------------------------------------------------

uint64_t Uncommitted::BeforeCommit(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  return one == nullptr ? 0 : one->number++;
}

bool Uncommitted::AfterCommit(const wire::FileHandle& file, uint64_t covered,
                              const wire::Verifier& verifier) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return true;
  // Data written again meanwhile may have arrived too late for this COMMIT.
  bool safe = one->rewritten <= covered;
  if (one->synced <= covered) one->synced = 0;
  std::erase_if(one->ranges, [&](const auto& entry) {
    const Range& range = entry.second;
    if (range.number > covered) return false;
    if (range.verifier == verifier) {
      one->bytes -= range.size;
      return true;
    }
    safe = false;
    return false;
  });
  DropIfIdle(file);
  return safe;
}

// ---- Writing again ---------------------------------------------------------------------------

bool Uncommitted::BeginRewrite(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr || one->rewriting) return false;
  one->rewriting = true;
  return true;
}

bool Uncommitted::Drained(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  return one == nullptr || one->writing == 0;
}

std::optional<Uncommitted::Piece> Uncommitted::NextStale(const wire::FileHandle& file,
                                                         const wire::Verifier& verifier,
                                                         uint32_t most) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return std::nullopt;
  for (const auto& [offset, range] : one->ranges) {
    if (range.verifier == verifier) continue;
    Piece piece;
    piece.offset = range.offset;
    piece.data = {range.block->bytes + range.at, std::min(range.size, most)};
    piece.writer = one->writer;
    piece.keeps = range.block;
    return piece;
  }
  return std::nullopt;
}

void Uncommitted::Rewritten(const wire::FileHandle& file, uint64_t offset, uint64_t bytes,
                            const wire::Verifier& verifier) {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return;
  auto it = one->ranges.find(offset);
  if (it == one->ranges.end()) return;
  Range& range = it->second;
  if (bytes < range.size) {
    Range rest = range;
    TakeFront(rest, offset + bytes);
    range.size = static_cast<uint32_t>(bytes);
    one->ranges.emplace_hint(std::next(it), rest.offset, std::move(rest));
  }
  range.verifier = verifier;
  range.number = one->rewritten = one->number;
}

void Uncommitted::EndRewrite(const wire::FileHandle& file) {
  absl::MutexLock lock(&mutex_);
  if (File* one = FindFile(file)) one->rewriting = false;
  DropIfIdle(file);
}

// ---- Queries ---------------------------------------------------------------------------------

bool Uncommitted::NeedsCommit(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  return one != nullptr && one->needs_commit();
}

bool Uncommitted::Holds(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  return one != nullptr && !one->ranges.empty();
}

bool Uncommitted::HoldsAnyOf(const wire::FileHandle& file, uint64_t offset, uint64_t end) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr) return false;
  auto behind = one->ranges.lower_bound(end);  // the first that begins at `end` or later
  return behind != one->ranges.begin() && std::prev(behind)->second.end() > offset;
}

std::optional<Uncommitted::Writer> Uncommitted::WriterOf(const wire::FileHandle& file) const {
  absl::MutexLock lock(&mutex_);
  File* one = FindFile(file);
  if (one == nullptr || !one->needs_commit()) return std::nullopt;
  return one->writer;
}

std::vector<wire::FileHandle> Uncommitted::Files() const {
  std::vector<std::pair<size_t, wire::FileHandle>> found;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [file, one] : files_) {
      if (!one->ranges.empty()) found.emplace_back(one->bytes, file);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<wire::FileHandle> files;
  for (auto& [bytes, file] : found) files.push_back(file);
  return files;
}

size_t Uncommitted::bytes() const {
  absl::MutexLock lock(&mutex_);
  size_t used = 0;
  for (const std::shared_ptr<Block>& block : blocks_) {
    used += block.use_count() > (block == filling_ ? 2 : 1) ? 1 : 0;
  }
  return used * kBlockBytes;
}

size_t Uncommitted::memory_bytes() const {
  absl::MutexLock lock(&mutex_);
  return blocks_.size() * kBlockBytes;
}

void Uncommitted::ReleaseUnused() {
  std::vector<std::shared_ptr<Block>> released;  // destroyed after the mutex is unlocked
  absl::MutexLock lock(&mutex_);
  if (filling_ != nullptr && filling_.use_count() == 2) filling_ = nullptr;
  std::erase_if(blocks_, [&](std::shared_ptr<Block>& block) {
    if (block.use_count() > 1) return false;
    if (!std::exchange(block->unused, true)) return false;
    released.push_back(std::move(block));
    return true;
  });
}

}  // namespace dafs::client
