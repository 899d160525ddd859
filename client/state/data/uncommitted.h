// Knows which files need a COMMIT, and keeps the data of their unstable writes until a COMMIT has
// made it safe, to write it again if the server loses it. A restart or a failed fsync of the server
// loses data and changes the write verifier.
// Spec: 6.5.8 (COMMIT), 6.5.38 (UNSTABLE, verifier).
//
// The Committer fills this store (client/recovery/committer.h) with the data of
// DataOperations::Write that the server answered as unstable. The data is copied, or stays in its
// send buffer if that can be kept (BufferPool::Keep). CommitOperations::Commit returns OK only when
// all of it has reached the disk under one verifier. If a caller closes a file without COMMIT,
// CommitSchedule commits the file later.
// Thread-safe: shared by the workers of a client. Nothing blocks; copies are made without the
// mutex. Memory for copies is at most `most_bytes` (client/state/data/kept_blocks.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "client/state/data/kept_blocks.h"
#include "client/state/data/kept_ranges.h"
#include "client/state/records/identity.h"
#include "client/state/records/state_recorder.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Uncommitted {
 public:
  explicit Uncommitted(size_t most_bytes) : most_bytes_(most_bytes), blocks_(most_bytes) {}

  // Keeps copies in memory of `recorder`, and records what is kept. Before the first write, once.
  // `recorder` must outlive this.
  void RecordIn(StateRecorder* recorder) ABSL_LOCKS_EXCLUDED(mutex_);

  // The user and the open (client/state/opens.h) with which a file's data is written again.
  struct Writer {
    Identity user;
    wire::StateId open;
  };

  // ---- Writing -----------------------------------------------------------------------------

  // BeginWrite and EndWrite bracket every write to `file`. False: its data is being written again,
  // and could overwrite a new write. The caller retries soon.
  bool BeginWrite(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndWrite(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);

  // Within the bracket: records that `data` was written unstable at `offset` under `verifier`. It
  // replaces earlier data of that range. `memory` holds `data`, which does not change any more; if
  // null, `data` is copied. False: there is no room. The caller commits a file and retries, or
  // writes the data stable.
  bool Add(const wire::FileHandle& file, const Identity& user, const wire::StateId& open,
           uint64_t offset, std::span<const std::byte> data, std::shared_ptr<const void> memory,
           const wire::Verifier& verifier) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for data that a killed process has left (docs/restart.md), before the first write.
  // There is always room. `verifier` zero: the server does not have it.
  void Restore(const wire::FileHandle& file, const Writer& writer, uint64_t offset,
               std::span<const std::byte> data, std::shared_ptr<const void> memory,
               const wire::Verifier& verifier) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records that `file` needs a COMMIT for data that the server answered as DATA_SYNC. Nothing is
  // kept of it.
  void NeedCommit(const wire::FileHandle& file, const Identity& user) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops the data of `file` from `offset` to `end`: it was written stable, or truncated (`end`
  // UINT64_MAX).
  void Forget(const wire::FileHandle& file, uint64_t offset, uint64_t end)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops everything, and nothing needs a COMMIT: the file does not exist any more, or its data
  // cannot be committed.
  void Drop(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- Committing --------------------------------------------------------------------------

  // Call before a COMMIT of the whole file. The COMMIT covers the data written until now; pass
  // the result to AfterCommit.
  uint64_t BeforeCommit(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // After the COMMIT: drops the data that is safe. False: some covered data has another verifier
  // and must be written again, or was written again meanwhile and needs another COMMIT.
  bool AfterCommit(const wire::FileHandle& file, uint64_t covered, const wire::Verifier& verifier)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- Writing again -----------------------------------------------------------------------

  struct Piece {
    uint64_t offset = 0;
    std::span<const std::byte> data;
    Writer writer;
    std::shared_ptr<const void> keeps;  // the memory of `data`; shared with the store
  };
  // Keeps writers out until EndRewrite. False: another worker is rewriting, or nothing is kept.
  bool BeginRewrite(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the writes that began before BeginRewrite have ended. If not, the caller retries soon.
  bool Drained(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // A piece of at most `most` bytes that has another verifier than `verifier`; nullopt: there is
  // none.
  std::optional<Piece> NextStale(const wire::FileHandle& file, const wire::Verifier& verifier,
                                 uint32_t most) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Records that `bytes` bytes from `offset` were written again under `verifier`.
  void Rewritten(const wire::FileHandle& file, uint64_t offset, uint64_t bytes,
                 const wire::Verifier& verifier) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndRewrite(const wire::FileHandle& file) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- Queries -----------------------------------------------------------------------------

  // Whether the file has data that is not yet on the server's stable storage.
  bool NeedsCommit(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether data of it is kept.
  bool Holds(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether any data in [offset, end) is kept.
  bool HoldsAnyOf(const wire::FileHandle& file, uint64_t offset, uint64_t end) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The last writer of the file; nullopt if it needs no COMMIT.
  std::optional<Writer> WriterOf(const wire::FileHandle& file) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The files of which data is kept, those with the most data first.
  std::vector<wire::FileHandle> Files() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);  // used memory for copies
  size_t most_bytes() const { return most_bytes_; }
  size_t memory_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);  // all memory for copies

  // Frees the memory that no copy has used since the last call.
  void ReleaseUnused() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct File {
    explicit File(std::pmr::memory_resource* memory) : ranges(memory) {}
    KeptRanges ranges;
    Writer writer;
    uint64_t number = 1;
    uint64_t synced = 0;     // the COMMIT that covers the last DATA_SYNC write; 0: none is needed
    uint64_t rewritten = 0;  // the number of the last rewrite
    int writing = 0;
    bool rewriting = false;
    uint64_t record_number = 0;  // StateRecorder::KeptFile
    StateRecorder::Slot slot = 0;
    bool needs_commit() const { return !ranges.empty() || synced != 0; }
  };

  static KeptPart Borrowed(std::span<const std::byte> data, std::shared_ptr<const void> memory);
  void SetWriter(const wire::FileHandle& file, File& one, const Identity& user,
                 const wire::StateId& open) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  File& FileOf(const wire::FileHandle& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  File* FindFile(const wire::FileHandle& file) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void DropIfIdle(const wire::FileHandle& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_bytes_;
  mutable absl::Mutex mutex_;
  StateRecorder* recorder_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t files_recorded_ ABSL_GUARDED_BY(mutex_) = 0;  // so far
  KeptBlocks blocks_ ABSL_GUARDED_BY(mutex_);
  // For the ranges of all files: memory that one file frees serves the others.
  std::pmr::unsynchronized_pool_resource range_memory_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::FileHandle, std::unique_ptr<File>> files_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<File>> spare_files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
