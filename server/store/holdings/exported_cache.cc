#include "server/store/holdings/exported_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/log/log.h"

namespace dafs::server {

namespace {

constexpr uint64_t kOneChange = 1;
constexpr uint64_t kUnderWay = 0xffff;
constexpr uint64_t kOneEnded = uint64_t{1} << 16;
constexpr uint32_t kNone = UINT32_MAX;

}  // namespace

class ExportedCache::Slab {
 public:
  explicit Slab(std::span<std::byte> memory)
      : memory_(memory), slots_(memory.size() / wire::kExportedStride) {
    free_.reserve(slots_.size());
    // New memory has version 0, which no reference has: nothing touches it before its use.
    for (uint32_t i = static_cast<uint32_t>(slots_.size()); i-- > 0;) free_.push_back(i);
  }
  ~Slab() { munmap(memory_.data(), memory_.size()); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  wire::ExportedFrame FrameOf(uint32_t slot) const {
    return memory_.subspan(PositionOf(slot)).first<wire::kExportedFrame>();
  }

  std::optional<Reference> Find(const ObjectKey& file, uint64_t block) {
    absl::MutexLock lock(&mutex_);
    return FindLocked(file, block);
  }

  // A block that was taken from a file, and whether it was the last one.
  struct Evicted {
    ObjectKey file;
    bool was_last = false;
  };
  // A slot whose block is invalid; nullopt: all are being filled.
  std::optional<uint32_t> Take(std::optional<Evicted>* evicted) {
    absl::MutexLock lock(&mutex_);
    if (!free_.empty()) {
      const uint32_t slot = free_.back();
      free_.pop_back();
      return slot;
    }
    for (size_t looked = 0; looked < 2 * slots_.size(); ++looked) {
      const uint32_t slot = hand_;
      hand_ = (hand_ + 1) % static_cast<uint32_t>(slots_.size());
      Slot& candidate = slots_[slot];
      if (candidate.file == nullptr) continue;  // being filled
      if (std::exchange(candidate.is_recent, false)) continue;
      *evicted = Evicted{candidate.file->key, false};
      Invalidate(slot);
      (*evicted)->was_last = !files_.contains((*evicted)->file);
      return slot;
    }
    return std::nullopt;
  }

  void Return(uint32_t slot) {
    absl::MutexLock lock(&mutex_);
    free_.push_back(slot);
  }

  // `may_publish` is called once the block can be found by a change that begins afterwards.
  template <class MayPublish>
  std::optional<Reference> Publish(uint32_t slot, const ObjectKey& key, uint64_t block,
                                   uint64_t version, const MayPublish& may_publish) {
    absl::MutexLock lock(&mutex_);
    if (!may_publish()) {
      free_.push_back(slot);
      return std::nullopt;
    }
    if (const auto known = FindLocked(key, block)) {  // another thread was faster
      free_.push_back(slot);
      return known;
    }
    File& file = files_[key];
    file.key = key;
    Slot& added = slots_[slot];
    added = {&file, block, version, kNone, file.first, /*is_recent=*/true};
    if (file.first != kNone) slots_[file.first].previous = slot;
    file.first = slot;
    index_[{&file, block}] = slot;
    wire::PublishExported(FrameOf(slot), version);
    return Reference{PositionOf(slot), version};
  }

  // Returns the number of blocks that were valid.
  uint64_t Drop(const ObjectKey& key, uint64_t first, uint64_t last) {
    absl::MutexLock lock(&mutex_);
    const auto it = files_.find(key);
    if (it == files_.end()) return 0;
    uint64_t dropped = 0;
    if (last - first < kFewBlocks) {
      const File* const file = &it->second;
      for (uint64_t block = first; block <= last; ++block) {
        const auto at = index_.find({file, block});
        if (at == index_.end()) continue;
        const bool is_last = file->first == at->second && slots_[at->second].next == kNone;
        Free(at->second);
        ++dropped;
        if (is_last) break;  // `file` is gone
      }
      return dropped;
    }
    for (uint32_t slot = it->second.first; slot != kNone;) {
      const uint32_t next = slots_[slot].next;
      if (slots_[slot].block >= first && slots_[slot].block <= last) {
        Free(slot);
        ++dropped;
      }
      slot = next;
    }
    return dropped;
  }

  std::vector<ObjectKey> Files() {
    absl::MutexLock lock(&mutex_);
    std::vector<ObjectKey> files;
    for (const auto& [key, file] : files_) files.push_back(key);
    return files;
  }

 private:
  static constexpr uint64_t kFewBlocks = 512;  // are looked up one by one

  struct File {
    ObjectKey key;
    uint32_t first = kNone;  // of its blocks
  };
  struct Slot {
    File* file = nullptr;  // null: not published
    uint64_t block = 0;
    uint64_t version = 0;
    uint32_t previous = kNone;  // of the file
    uint32_t next = kNone;
    bool is_recent = false;
  };

  static uint64_t PositionOf(uint32_t slot) {
    return uint64_t{slot} * wire::kExportedStride + wire::kExportedFirst;
  }

  std::optional<Reference> FindLocked(const ObjectKey& key, uint64_t block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = files_.find(key);
    if (it == files_.end()) return std::nullopt;
    const auto at = index_.find({&it->second, block});
    if (at == index_.end()) return std::nullopt;
    Slot& slot = slots_[at->second];
    slot.is_recent = true;
    return Reference{PositionOf(at->second), slot.version};
  }

  // Forgets the file with its last block.
  void Invalidate(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    wire::InvalidateExported(FrameOf(index));
    Slot& slot = slots_[index];
    File* const file = slot.file;
    index_.erase({file, slot.block});
    if (slot.next != kNone) slots_[slot.next].previous = slot.previous;
    if (slot.previous != kNone) {
      slots_[slot.previous].next = slot.next;
    } else {
      file->first = slot.next;
    }
    slot = Slot();
    if (file->first != kNone) return;
    const ObjectKey key = file->key;
    files_.erase(key);
  }

  void Free(uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Invalidate(index);
    free_.push_back(index);
  }

  const std::span<std::byte> memory_;
  absl::Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);
  uint32_t hand_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::node_hash_map<ObjectKey, File> files_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::pair<const File*, uint64_t>, uint32_t> index_ ABSL_GUARDED_BY(mutex_);
};

// A later run of the server begins with a later version, so references of this one stay invalid.
ExportedCache::ExportedCache(size_t slab_bytes, size_t exports,
                             std::function<void(const ObjectKey&)> on_empty)
    : slab_bytes_(slab_bytes),
      on_empty_(std::move(on_empty)),
      slabs_(slab_bytes > 0 ? exports : 0),
      last_version_(static_cast<uint64_t>(absl::GetCurrentTimeNanos()) << 1) {
  if (on()) changes_ = std::make_unique<Changes[]>(kStripes);
}

ExportedCache::~ExportedCache() {
  for (const std::atomic<Slab*>& slab : slabs_) delete slab.load();
}

ExportedCache::Changes& ExportedCache::ChangesOf(const ObjectKey& file) {
  return changes_[absl::HashOf(file) % kStripes];
}

ExportedCache::Slab* ExportedCache::Find(size_t export_index) const {
  if (export_index >= slabs_.size()) return nullptr;  // also: of an export that a reload has added
  return slabs_[export_index].load(std::memory_order_acquire);
}

std::span<std::byte> ExportedCache::SlabOf(size_t export_index) {
  if (export_index >= slabs_.size()) return {};
  absl::MutexLock lock(&mapping_);
  if (Slab* const slab = Find(export_index)) return slab->memory();
  void* const memory = mmap(nullptr, slab_bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    LogWarning(absl::StrCat("exported cache of ", slab_bytes_ >> 20, " MiB: ", std::strerror(errno),
                            "; clients read by requests (--export-cache)"));
    return {};
  }
  auto* const slab = new Slab({static_cast<std::byte*>(memory), slab_bytes_});
  slabs_[export_index].store(slab, std::memory_order_release);
  return slab->memory();
}

void ExportedCache::BeginChange(const ObjectKey& file, uint64_t first, uint64_t end) {
  if (!on()) return;
  Changes& changes = ChangesOf(file);
  changes.state.fetch_add(kOneChange, std::memory_order_seq_cst);
  if (changes.blocks.load(std::memory_order_seq_cst) == 0 || first >= end) return;
  for (const std::atomic<Slab*>& each : slabs_) {
    Slab* const slab = each.load(std::memory_order_acquire);
    if (slab == nullptr) continue;
    const uint64_t dropped =
        slab->Drop(file, first / wire::kExportedBlock, (end - 1) / wire::kExportedBlock);
    changes.blocks.fetch_sub(dropped, std::memory_order_seq_cst);
    invalidated_.fetch_add(dropped, std::memory_order_relaxed);
  }
}

void ExportedCache::EndChange(const ObjectKey& file) {
  if (on()) ChangesOf(file).state.fetch_add(kOneEnded - kOneChange, std::memory_order_seq_cst);
}

void ExportedCache::Drop(const ObjectKey& file) {
  BeginChange(file, 0, UINT64_MAX);
  EndChange(file);
}

void ExportedCache::DropAll() {
  if (!on()) return;
  // Whatever is being filled is not published.
  for (size_t i = 0; i < kStripes; ++i) {
    changes_[i].state.fetch_add(kOneEnded, std::memory_order_seq_cst);
  }
  for (const std::atomic<Slab*>& each : slabs_) {
    Slab* const slab = each.load(std::memory_order_acquire);
    if (slab == nullptr) continue;
    for (const ObjectKey& file : slab->Files()) Drop(file);
  }
}

std::optional<ExportedCache::Reference> ExportedCache::Find(size_t export_index,
                                                            const ObjectKey& file, uint64_t block) {
  Slab* const slab = Find(export_index);
  return slab != nullptr ? slab->Find(file, block) : std::nullopt;
}

std::optional<ExportedCache::Filling> ExportedCache::Begin(size_t export_index,
                                                           const ObjectKey& file, uint64_t block) {
  Slab* const slab = Find(export_index);
  if (slab == nullptr) return std::nullopt;
  const uint64_t seen = ChangesOf(file).state.load(std::memory_order_seq_cst);
  if ((seen & kUnderWay) != 0) return std::nullopt;
  std::optional<Slab::Evicted> evicted;
  const std::optional<uint32_t> slot = slab->Take(&evicted);
  if (evicted.has_value()) {
    ChangesOf(evicted->file).blocks.fetch_sub(1, std::memory_order_seq_cst);
    evicted_.fetch_add(1, std::memory_order_relaxed);
    if (evicted->was_last && !(evicted->file == file)) on_empty_(evicted->file);
  }
  if (!slot.has_value()) return std::nullopt;
  Filling filling;
  filling.cache_ = this;
  filling.export_index_ = export_index;
  filling.slot_ = *slot;
  filling.file_ = file;
  filling.block_ = block;
  filling.seen_ = seen;
  return filling;
}

ExportedCache::Filling::Filling(Filling&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      export_index_(other.export_index_),
      slot_(other.slot_),
      file_(other.file_),
      block_(other.block_),
      seen_(other.seen_) {}

ExportedCache::Filling::~Filling() {
  if (cache_ != nullptr) cache_->Find(export_index_)->Return(slot_);
}

std::span<std::byte, wire::kExportedBlock> ExportedCache::Filling::data() const {
  return wire::ExportedData(cache_->Find(export_index_)->FrameOf(slot_));
}

std::optional<ExportedCache::Reference> ExportedCache::Filling::Publish() && {
  ExportedCache& cache = *std::exchange(cache_, nullptr);
  Changes& changes = cache.ChangesOf(file_);
  const uint64_t version = cache.last_version_.fetch_add(2, std::memory_order_relaxed) + 2;
  const std::optional<Reference> published =
      cache.Find(export_index_)->Publish(slot_, file_, block_, version, [&] {
        changes.blocks.fetch_add(1, std::memory_order_seq_cst);
        return changes.state.load(std::memory_order_seq_cst) == seen_;
      });
  if (!published.has_value() || published->version != version) {
    changes.blocks.fetch_sub(1, std::memory_order_seq_cst);
  } else {
    cache.published_.fetch_add(1, std::memory_order_relaxed);
  }
  return published;
}

ExportedCache::Counts ExportedCache::GetCounts() const {
  Counts counts;
  for (const std::atomic<Slab*>& slab : slabs_)
    counts.bytes += slab.load() == nullptr ? 0 : slab_bytes_;
  for (size_t i = 0; on() && i < kStripes; ++i) {
    counts.blocks += changes_[i].blocks.load(std::memory_order_relaxed);
  }
  counts.published = published_.load(std::memory_order_relaxed);
  counts.invalidated = invalidated_.load(std::memory_order_relaxed);
  counts.evicted = evicted_.load(std::memory_order_relaxed);
  return counts;
}

}  // namespace dafs::server
