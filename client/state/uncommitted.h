// The data of unstable writes, kept until a COMMIT has made it safe, so that it can be written
// again when the server lost it: a restart, or a failed fsync there, changes the write verifier.
// Spec: 6.5.8 (COMMIT), 6.5.38 (UNSTABLE, verifier).
//
// The Committer keeps it (client/recovery/committer.h): what Files::Write was told is unstable is
// copied here, or stays in the buffer it was sent from where that can be kept (BufferPool::Keep),
// and Files::Commit is OK only when all of it has reached the disk under one verifier. Who does not
// COMMIT a file when it is closed leaves that to this store, which asks for it in time.
// Thread-safe: shared by the workers of a client. Nothing blocks; the copy is made outside of the
// mutex. Memory for copies comes in blocks that are used again, at most `most_bytes` in all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/identity.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Uncommitted {
 public:
  explicit Uncommitted(size_t most_bytes) : most_bytes_(most_bytes) {}

  // How a file's data is written again: by whom, and under which open (client/state/opens.h).
  struct Writer {
    Identity who;
    wire::StateId open;
  };

  // ---- Writing -----------------------------------------------------------------------------

  // Brackets every write to `file`. False: its data is being written again just now, and a write
  // beside that could be undone by it; ask again soon.
  bool BeginWrite(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndWrite(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);

  // Within the bracket: `data` was written at `offset`, unstable, under `verifier`; it takes the
  // place of what was there. `memory`: holds `data`, which nobody changes any more; null: `data` is
  // copied. False: it did not fit; COMMIT a file and add it again, or write it stable.
  bool Add(const wire::FileHandle& file, const Identity& who, const wire::StateId& open,
           uint64_t offset, std::span<const std::byte> data, std::shared_ptr<const void> memory,
           const wire::Verifier& verifier, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // What is kept of `file` from `offset` on is void: it was written stable up to `end`, or cut off
  // (`end` UINT64_MAX).
  void Forget(const wire::FileHandle& file, uint64_t offset, uint64_t end)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- Committing --------------------------------------------------------------------------

  // Before a COMMIT of the whole file: what was written until now is what it covers.
  uint64_t BeforeCommit(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // After it: lets go of what is safe. False: some of what it covered was written under another
  // verifier, and must be written again; or was, meanwhile, and another COMMIT must follow.
  bool AfterCommit(const wire::FileHandle& file, uint64_t covered, const wire::Verifier& verifier)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Its data cannot be made safe, and is let go. TakeFailure tells `why`, once.
  void Fail(const wire::FileHandle& file, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status TakeFailure(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether any file has a failure to take. Spares the mutex.
  bool HasFailure() const { return failures_.load(std::memory_order_acquire) != 0; }

  // ---- Writing again -----------------------------------------------------------------------

  struct Piece {
    uint64_t offset = 0;
    std::span<const std::byte> data;
    Writer writer;
    std::shared_ptr<const void> keeps;  // the memory of `data`; the owners are the store and this
  };
  // Keeps writers out. False: somebody else does it, or there is nothing to do.
  bool BeginRewrite(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the writes that had begun before have ended; ask again soon if not.
  bool Drained(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Some of what is not under `verifier`, at most `most` bytes; nullopt: nothing is left.
  std::optional<Piece> NextStale(const wire::FileHandle& file, const wire::Verifier& verifier,
                                 uint32_t most) const ABSL_LOCKS_EXCLUDED(mutex_);
  // `bytes` from `offset` on were written again.
  void Rewritten(const wire::FileHandle& file, uint64_t offset, uint64_t bytes,
                 const wire::Verifier& verifier) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndRewrite(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- What is there -----------------------------------------------------------------------

  bool Holds(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether any of it lies in [offset, end).
  bool HoldsAnyOf(const wire::FileHandle& file, uint64_t offset, uint64_t end) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Who wrote to the file last.
  std::optional<Writer> WriterOf(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The files with data older than `before`; those with most of it first.
  std::vector<wire::FileHandle> Files(absl::Time before) const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);  // of memory for copies in use
  size_t most_bytes() const { return most_bytes_; }
  size_t memory_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);  // for copies, in use or not

  // Frees the memory that no copy has used since this was called last.
  void ReleaseUnused() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr uint32_t kBlockBytes = 256 << 10;
  struct Block {
    const std::byte* bytes = nullptr;
    std::unique_ptr<std::byte[]> room;   // for copies, or
    std::shared_ptr<const void> memory;  // where the data was before
    uint32_t used = 0;                   // of `room`
    bool unused = false;                 // since ReleaseUnused was called last
  };
  // Part of a file; ranges do not overlap.
  struct Range {
    uint64_t offset = 0;
    uint32_t size = 0;
    std::shared_ptr<Block> block;  // the owners are the ranges in it and who writes them again
    uint32_t at = 0;               // in the block
    wire::Verifier verifier;
    uint64_t number = 0;  // which COMMIT covers it
    uint64_t end() const { return offset + size; }
  };
  struct File {
    explicit File(std::pmr::memory_resource* memory) : ranges(memory) {}
    std::pmr::map<uint64_t, Range> ranges;  // by offset
    Writer writer;
    absl::Time since;  // of the oldest data
    uint64_t number = 1;
    uint64_t rewritten = 0;  // the number of what was written again last
    size_t bytes = 0;
    int writing = 0;
    bool rewriting = false;
    absl::Status failure;
  };

  File* FindFile(const wire::FileHandle& file) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool Reserve(size_t bytes, std::vector<Range>& parts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Cut(File& file, uint64_t offset, uint64_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void TakeFront(Range& range, uint64_t offset);
  void Insert(File& file, Range range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropIfIdle(const wire::FileHandle& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_bytes_;
  std::atomic<size_t> failures_{0};  // files whose failure was not taken yet
  mutable absl::Mutex mutex_;
  // Of the ranges of all files: what one lets go of another takes.
  std::pmr::unsynchronized_pool_resource range_memory_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::FileHandle, std::unique_ptr<File>> files_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<File>> spare_files_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Block> filling_ ABSL_GUARDED_BY(mutex_);              // the block that has room
  std::vector<std::shared_ptr<Block>> blocks_ ABSL_GUARDED_BY(mutex_);  // all with room
};

}  // namespace dafs::client
