// One asynchronous I/O: its lists, the cutting into pieces of one request each, its results and its
// end. AsyncIo makes the records once and uses them again; its lanes transfer the pieces
// (client/library/async_lanes.h). Spec: FAST03 4 (the DAFS API).
// Internal to client/library. Belongs to the thread of its loop. Nothing blocks or allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/files/files.h"
#include "client/library/io_file.h"
#include "client/library/reference_reads.h"
#include "client/memory/completion_group.h"
#include "client/memory/memory_use.h"
#include "client/memory/user_memory.h"
#include "client/state/records/identity.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// The part of an I/O that one request transfers.
struct AsyncPiece {
  uint64_t start = 0;  // bytes of the I/O before it
  FileRange range;
  UserPart part;
  uint32_t done = 0;
  bool eof = false;
  wire::StableHow committed = wire::StableHow::kFileSync;
};

class AsyncRecord;

// Shared by the records of one AsyncIo.
struct AsyncShared {
  Files& files;
  std::vector<AsyncRecord*> free;
  size_t outstanding = 0;  // I/Os
};

// An I/O from Issue until it is collected. It ends when its last lane has ended, or earlier if it
// was cancelled, but never while a request may still access its memory (MemoryUse).
class AsyncRecord final : public MemoryUse, public internal::GroupEntry {
 public:
  enum class State : uint8_t { kFree, kOut, kEnded, kCollected };

  // `shared` must outlive this.
  AsyncRecord(AsyncShared& shared, uint32_t index) : shared_(shared), index_(index) {}

  // Begins the I/O; it is `kFree`. Its lanes begin with AddLane.
  void Start(bool write, IoFile& file, std::span<const MemorySegment> segments,
             std::span<const FileRange> ranges, CompletionGroup& group, const IoOptions& options);
  // Returns the part for the next request, at most `most` bytes; false: nothing is left.
  bool Next(uint32_t most, AsyncPiece& piece);
  // `piece` was transferred as far as its results say; `status` is why no further.
  void Finished(const AsyncPiece& piece, absl::Status status);
  // A lane that was added has ended. With the last one the I/O ends.
  void LaneEnded();
  // Gives the memory back to the application as soon as no request holds it.
  void Cancel();
  void Collect(IoCompletion& out) override;
  // Removes it from its group; it is `kEnded`.
  void Forget() { group_->Remove(*this); }

  IoId id() const { return {uint64_t{generation_} << 32 | index_}; }
  State state() const { return state_; }
  bool write() const { return write_; }
  bool registered() const { return registered_; }
  uint32_t lanes() const { return lanes_; }
  void AddLane() { ++lanes_; }
  // The file, as `references` knows it from now on.
  ReferenceReads::File ReferencedFile(ReferenceReads& references) const;
  bool has_more() const { return next_.start < total_; }
  DataTarget TargetOf(const Identity& user, const FileRange& range) const {
    return {&user, &handle_, state_id_, range.offset, options_.stability, options_.cache_hint};
  }

 private:
  void LetGo() override;
  void End(absl::Status status);
  void Free();

  AsyncShared& shared_;
  const uint32_t index_;
  uint32_t generation_ = 0;
  State state_ = State::kFree;
  bool write_ = false;
  bool registered_ = false;
  bool cuts_lists_ = false;  // its requests name at most RemoteAccess::kMostOfRequest segments
  bool long_lists_ = false;  // they may name more
  uint32_t lanes_ = 0;       // coroutines that work on it
  IoFile* file_ = nullptr;
  CompletionGroup* group_ = nullptr;
  wire::FileHandle handle_;
  wire::StateId state_id_;
  IoOptions options_;
  uint64_t total_ = 0;
  uint64_t gap_ = 0;  // start of the first missing bytes; total_: none is missing
  bool eof_ = false;
  wire::StableHow committed_ = wire::StableHow::kFileSync;
  FileRange failed_;
  absl::Status error_;
  // Where the next piece begins.
  struct {
    uint64_t start = 0;
    size_t range = 0;
    uint32_t in_range = 0;
    UserPart part;
  } next_;
  size_t segment_count_ = 0;
  size_t range_count_ = 0;
  std::array<MemorySegment, kMostIoSegments> segments_;
  std::array<FileRange, kMostIoSegments> ranges_;
};

}  // namespace dafs::client
