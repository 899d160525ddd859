// The exported cache: blocks of files that clients read by RDMA reads of their own. For each export
// one slab of memory, whose blocks verify themselves (wire/codec/exported_block.h).
// Spec: FAST03 companion (Optimistic DAFS); docs/optimistic.md.
//
// A change of a file begins and ends here (FileChange). Its beginning makes the blocks that change
// invalid, without a message to any client. Until its end, and if one began meanwhile, a block that
// was read from the file is not published: so a block is never older than the last change that has
// been answered.
//
// Which block is evicted: CLOCK. The server does not see the reads, so what counts as a use of a
// block is that a client requested a reference to it.
// Thread-safe; nothing blocks on anything but a short mutex. Off, it has no memory and no locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/store/objects/handle.h"
#include "wire/codec/exported_block.h"

namespace dafs::server {

class ExportedCache {
 public:
  // Where a block is: as in wire::BlockReference.
  struct Reference {
    uint64_t position = 0;
    uint64_t version = 0;
  };
  struct Counts {
    uint64_t bytes = 0;      // of all slabs
    uint64_t blocks = 0;     // valid now
    uint64_t published = 0;  // since the start, and so on
    uint64_t invalidated = 0;
    uint64_t evicted = 0;
  };

  // `slab_bytes` for each of `exports`; 0: off. `on_empty` is called when a file has lost its last
  // block to another file, on the thread that needed the room and without a lock.
  ExportedCache(
      size_t slab_bytes, size_t exports,
      std::function<void(const ObjectKey&)> on_empty = [](const ObjectKey&) {});
  ~ExportedCache();
  ExportedCache(const ExportedCache&) = delete;
  ExportedCache& operator=(const ExportedCache&) = delete;

  bool on() const { return slab_bytes_ > 0; }
  // The slab of an export, mapped at the first call. Empty: off, or there is no memory for it.
  std::span<std::byte> SlabOf(size_t export_index);

  // The bytes from `first` to before `end` of a file are about to change; EndChange follows when
  // they have. Two atomic operations if the file has no blocks here.
  void BeginChange(const ObjectKey& file, uint64_t first, uint64_t end);
  void EndChange(const ObjectKey& file);
  // Makes all blocks of a file invalid, or of all files.
  void Drop(const ObjectKey& file);
  void DropAll();

  // The reference to a valid block, if there is one.
  std::optional<Reference> Find(size_t export_index, const ObjectKey& file, uint64_t block);

  // A block to be filled from the file. Its destructor gives up one that was not published.
  class Filling {
   public:
    Filling(Filling&& other) noexcept;
    Filling& operator=(Filling&&) = delete;
    ~Filling();

    // For the data, which the caller reads from the file now.
    std::span<std::byte, wire::kExportedBlock> data() const;
    // nullopt: a change has begun since Begin.
    std::optional<Reference> Publish() &&;

   private:
    friend class ExportedCache;
    Filling() = default;

    ExportedCache* cache_ = nullptr;  // null: moved from, or published
    size_t export_index_ = 0;
    uint32_t slot_ = 0;
    ObjectKey file_;
    uint64_t block_ = 0;
    uint64_t seen_ = 0;  // Changes::state
  };
  // Evicts a block if none is free. nullopt: the file is being changed, or the export has no slab
  // (SlabOf), or every block is being filled.
  std::optional<Filling> Begin(size_t export_index, const ObjectKey& file, uint64_t block);

  Counts GetCounts() const;

 private:
  class Slab;
  // The changes of the files with one hash.
  struct alignas(64) Changes {
    // The changes under way in the lower 16 bits, those that have ended above.
    std::atomic<uint64_t> state{0};
    // Valid blocks of these files. A publisher adds one before it looks at `state`, and a change
    // adds itself to `state` before it looks at this: so one of them sees the other.
    std::atomic<uint64_t> blocks{0};
  };
  static constexpr size_t kStripes = 1024;

  Changes& ChangesOf(const ObjectKey& file);
  Slab* Find(size_t export_index) const;

  const size_t slab_bytes_;
  const std::function<void(const ObjectKey&)> on_empty_;
  std::unique_ptr<Changes[]> changes_;
  mutable absl::Mutex mapping_;
  // Set once each.
  std::vector<std::atomic<Slab*>> slabs_;
  std::atomic<uint64_t> last_version_;
  std::atomic<uint64_t> published_{0};  // counters: order nothing
  std::atomic<uint64_t> invalidated_{0};
  std::atomic<uint64_t> evicted_{0};
};

}  // namespace dafs::server
