#include "client/library/async_io.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/library/call_name.h"
#include "client/library/reference_reads.h"
#include "client/memory/memory_use.h"
#include "client/memory/remote_access.h"
#include "client/recovery/calls/data_parts.h"
#include "runtime/check.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

// Outstanding requests of one I/O.
constexpr uint32_t kMostLanes = 4;

uint64_t BytesOf(const auto& parts) {
  uint64_t bytes = 0;
  for (const auto& part : parts) bytes += part.size;
  return bytes;
}

// The same error with the names of the call and of the file.
absl::Status Named(Files& files, bool write, const IoFile& file, const FileRange& range,
                   const absl::Status& status) {
  return NameCall(files,
                  absl::StrCat(write ? "write " : "read ", range.size, " at ", range.offset, " of"),
                  file.name, status);
}

}  // namespace

// The part of an I/O that one request transfers.
struct AsyncIo::Piece {
  uint64_t start = 0;  // bytes of the I/O before it
  FileRange range;
  UserPart part;
  uint32_t done = 0;
  bool eof = false;
  wire::StableHow committed = wire::StableHow::kFileSync;
};

// An I/O from Issue until it is collected. It ends when its last lane has ended, or earlier if it
// was cancelled, but never while a request may still access its memory (MemoryUse).
class AsyncIo::Record final : public MemoryUse, public internal::GroupEntry {
 public:
  enum class State : uint8_t { kFree, kOut, kEnded, kCollected };

  Record(AsyncIo& owner, uint32_t index) : owner_(owner), index_(index) {}

  void Start(bool write, IoFile& file, std::span<const MemorySegment> segments,
             std::span<const FileRange> ranges, CompletionGroup& group, const IoOptions& options);
  // Returns the part for the next request, at most `most` bytes; false: nothing is left.
  bool Next(uint32_t most, Piece& piece);
  void Finished(const Piece& piece, absl::Status status);
  void LaneEnded();
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
  ReferenceReads::File ReferencedFile(ReferenceReads& references) const {
    if (file_->referenced_as == 0) file_->referenced_as = references.NewFile();
    return {file_->referenced_as, handle_, state_id_};
  }
  bool has_more() const { return next_.start < total_; }
  DataTarget TargetOf(const Identity& user, const FileRange& range) const {
    return {&user, &handle_, state_id_, range.offset, options_.stability, options_.cache_hint};
  }

 private:
  void LetGo() override;
  void End(absl::Status status);
  void Free();

  AsyncIo& owner_;
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
  std::array<MemorySegment, kMostSegments> segments_;
  std::array<FileRange, kMostSegments> ranges_;
};

void AsyncIo::Record::Start(bool write, IoFile& file, std::span<const MemorySegment> segments,
                            std::span<const FileRange> ranges, CompletionGroup& group,
                            const IoOptions& options) {
  generation_ = (generation_ + 1) & 0x7fffffff;  // IoId::kOfBatch is not set
  state_ = State::kOut;
  Begin();
  write_ = write;
  file_ = &file;
  group_ = &group;
  handle_ = file.handle;
  state_id_ = file.state_id;
  options_ = options;
  std::copy(segments.begin(), segments.end(), segments_.begin());
  std::copy(ranges.begin(), ranges.end(), ranges_.begin());
  segment_count_ = segments.size();
  range_count_ = ranges.size();
  gap_ = total_ = BytesOf(ranges);
  eof_ = false;
  committed_ = wire::StableHow::kFileSync;
  error_ = absl::OkStatus();
  UserMemory& memory = owner_.files_.buffers().user_memory();
  next_ = {};
  next_.part = {&memory, this, segments_.data(), 0, 0, write};
  registered_ = true;
  for (const MemorySegment& segment : segments) {
    registered_ &= !segment.handle.is_null();
    memory.BeginUse(segment.handle);
  }
  const bool many = registered_ && segment_count_ > RemoteAccess::kMostOfRequest;
  cuts_lists_ = many && memory.by_windows();
  long_lists_ = many && !memory.by_windows();
  if (long_lists_) memory.BeginLongLists();
  ++file.out;
  ++owner_.out_;
  group.Issued();
}

bool AsyncIo::Record::Next(uint32_t most, Piece& piece) {
  if (given_up() || gap_ < total_) return false;
  while (next_.range < range_count_ && next_.in_range == ranges_[next_.range].size) {
    ++next_.range;
    next_.in_range = 0;
  }
  if (next_.range == range_count_) return false;
  const FileRange& range = ranges_[next_.range];
  uint32_t size = std::min(most, range.size - next_.in_range);
  piece.start = next_.start;
  piece.part = next_.part.Sub(0, size);
  if (cuts_lists_) {
    size = piece.part.BytesIn(RemoteAccess::kMostOfRequest);
    piece.part = next_.part.Sub(0, size);
  }
  piece.range = {range.offset + next_.in_range, size};
  next_.start += size;
  next_.in_range += size;
  if (next_.start < total_) next_.part = next_.part.Sub(size, 0);
  return true;
}

void AsyncIo::Record::Finished(const Piece& piece, absl::Status status) {
  if (state_ != State::kOut) return;
  eof_ |= piece.eof;
  if (write_ && piece.done > 0) committed_ = std::min(committed_, piece.committed);
  if (piece.done == piece.range.size) return;
  const uint64_t gap = piece.start + piece.done;
  if (gap >= gap_) return;  // an earlier failure counts
  gap_ = gap;
  error_ = std::move(status);
  failed_ = piece.range;
}

void AsyncIo::Record::LaneEnded() {
  if (--lanes_ > 0) return;
  if (state_ == State::kCollected) {
    Free();
  } else if (state_ == State::kOut && !held()) {
    LetGo();
  }
}

// Nothing holds the memory: it has ended, or a cancelled I/O can end now.
void AsyncIo::Record::LetGo() {
  if (state_ != State::kOut) return;
  if (lanes_ == 0) {
    if (gap_ > next_.start) {  // not all of it was issued
      gap_ = next_.start;
      error_ = absl::CancelledError("cancelled by the application");
      failed_ = ranges_[0];
    }
    End(error_.ok() ? absl::OkStatus() : Named(owner_.files_, write_, *file_, failed_, error_));
  } else if (given_up()) {
    gap_ = 0;
    End(Named(owner_.files_, write_, *file_, ranges_[0],
              absl::CancelledError("cancelled by the application")));
  }
}

void AsyncIo::Record::Cancel() {
  if (state_ != State::kOut) return;
  GiveUp();
  if (!held()) LetGo();
}

void AsyncIo::Record::End(absl::Status status) {
  state_ = State::kEnded;
  error_ = std::move(status);
  UserMemory& memory = owner_.files_.buffers().user_memory();
  for (size_t i = 0; i < segment_count_; ++i) memory.EndUse(segments_[i].handle);
  if (long_lists_) memory.EndLongLists();
  --file_->out;
  --owner_.out_;
  file_ = nullptr;
  GiveUp();  // a lane of a cancelled I/O may still run
  group_->Ended(*this);
}

void AsyncIo::Record::Collect(IoCompletion& out) {
  out.id = id();
  out.cookie = options_.cookie;
  out.status = std::move(error_);
  out.count = gap_;
  out.eof = eof_;
  out.committed = committed_;
  state_ = State::kCollected;
  if (lanes_ == 0) Free();
}

void AsyncIo::Record::Free() {
  state_ = State::kFree;
  owner_.free_.push_back(this);
}

// ---- The I/O of a session -----------------------------------------------------------------------

AsyncIo::AsyncIo(Files& files, const Identity& user, uint32_t most_out)
    : files_(files), user_(user) {
  records_.reserve(most_out);
  free_.reserve(most_out);
  for (uint32_t i = 0; i < most_out; ++i) {
    records_.push_back(std::make_unique<Record>(*this, i));
  }
  for (uint32_t i = most_out; i-- > 0;) free_.push_back(records_[i].get());
}

AsyncIo::~AsyncIo() {
  for (const std::unique_ptr<Record>& record : records_) {
    if (record->state() == Record::State::kEnded) record->Forget();
    DAFS_CHECK(record->state() != Record::State::kOut && record->lanes() == 0,
               "a session ends before its I/O");
  }
}

absl::StatusOr<IoId> AsyncIo::Read(IoFile& file, std::span<const MemorySegment> into,
                                   std::span<const FileRange> from, CompletionGroup& group,
                                   const IoOptions& options) {
  return Issue(false, file, into, from, group, options);
}

absl::StatusOr<IoId> AsyncIo::Write(IoFile& file, std::span<const MemorySegment> from,
                                    std::span<const FileRange> to, CompletionGroup& group,
                                    const IoOptions& options) {
  return Issue(true, file, from, to, group, options);
}

absl::Status AsyncIo::Check(bool write, std::span<const MemorySegment> segments,
                            std::span<const FileRange> ranges) const {
  if (segments.size() > kMostSegments || ranges.size() > kMostSegments) {
    return absl::InvalidArgumentError(absl::StrCat(segments.size(), " segments and ", ranges.size(),
                                                   " ranges: at most ", kMostSegments,
                                                   " of each in one I/O"));
  }
  if (ranges.empty() || segments.empty()) return absl::InvalidArgumentError("an empty list");
  if (BytesOf(segments) != BytesOf(ranges)) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory of ", BytesOf(segments), " bytes for ranges of ", BytesOf(ranges)));
  }
  for (const FileRange& range : ranges) {
    if (range.offset > UINT64_MAX - range.size) {
      return absl::InvalidArgumentError("a range that ends after the last offset");
    }
  }
  for (const MemorySegment& segment : segments) {
    if (segment.handle.is_null()) continue;
    RETURN_IF_ERROR(files_.buffers().user_memory().Check(segment, write));
  }
  return absl::OkStatus();
}

absl::StatusOr<IoId> AsyncIo::Issue(bool write, IoFile& file,
                                    std::span<const MemorySegment> segments,
                                    std::span<const FileRange> ranges, CompletionGroup& group,
                                    const IoOptions& options) {
  if (absl::Status status = Check(write, segments, ranges); !status.ok()) {
    return NameCall(files_, write ? "write of" : "read of", file.name, status);
  }
  if (free_.empty()) {
    return NameCall(files_, write ? "write of" : "read of", file.name,
                    absl::ResourceExhaustedError(absl::StrCat(
                        records_.size(), " I/Os are outstanding or not yet collected")));
  }
  Record& record = *free_.back();
  free_.pop_back();
  record.Start(write, file, segments, ranges, group, options);
  const IoId id = record.id();
  record.AddLane();  // keeps it from ending below
  for (uint32_t i = 0; i < kMostLanes && record.has_more() && !record.given_up(); ++i) {
    record.AddLane();
    Start(RunLane(record));
  }
  record.LaneEnded();
  return id;
}

AsyncIo::Record* AsyncIo::Find(IoId id) {
  const auto index = static_cast<size_t>(id.value & 0xffffffff);
  if (index >= records_.size()) return nullptr;
  Record& record = *records_[index];
  const bool there =
      record.state() == Record::State::kOut || record.state() == Record::State::kEnded;
  return there && record.id() == id ? &record : nullptr;
}

absl::StatusOr<IoCompletion> AsyncIo::Wait(IoId id) {
  Record* record = Find(id);
  if (record == nullptr) return absl::NotFoundError("wait: no such I/O is outstanding");
  while (record->state() == Record::State::kOut) {
    files_.loop().RunOnce(absl::InfiniteDuration());
  }
  IoCompletion completion;
  record->Forget();
  record->Collect(completion);
  return completion;
}

absl::Status AsyncIo::Cancel(IoId id) {
  Record* record = Find(id);
  if (record == nullptr) return absl::NotFoundError("cancel: no such I/O is outstanding");
  record->Cancel();
  return absl::OkStatus();
}

// ---- One I/O ---------------------------------------------------------------------------------

// Transfers one piece after the other.
Task<void> AsyncIo::RunLane(Record& record) {
  for (;;) {
    const uint32_t most =
        record.write() ? files_.transfers().write_bytes() : files_.transfers().read_bytes();
    Piece piece;
    if (!record.Next(most, piece)) break;
    if (references_ != nullptr && !record.write()) {
      Task<bool> reading = RunByReference(record, piece);
      if (co_await reading) {
        record.Finished(piece, absl::OkStatus());
        continue;
      }
      if (record.given_up()) {  // its memory may be in other use
        record.Finished(piece, absl::CancelledError("cancelled by the application"));
        continue;
      }
    }
    Task<absl::Status> task =
        Stages(record, piece.range.size) ? RunStaged(record, piece) : RunPiece(record, piece);
    absl::Status status = co_await task;
    record.Finished(piece, std::move(status));
  }
  record.LaneEnded();
}

// Whether `size` bytes are copied through the library's buffers. Data that fits into a message need
// not be.
bool AsyncIo::Stages(const Record& record, uint32_t size) const {
  if (record.registered()) return false;
  const ClientOptions& options = files_.client().options();
  return size > (record.write() ? options.inline_write_bytes : options.inline_read_bytes);
}

// False: to be read by a request.
Task<bool> AsyncIo::RunByReference(Record& record, Piece& piece) {
  if (piece.range.size > wire::kExportedBlock) co_return false;
  const auto take = [&](std::span<const std::byte> bytes) {
    if (record.given_up()) return;
    piece.part.Fill(bytes);
    piece.done = piece.range.size;  // a block is never the last of its file
  };
  Task<bool> reading = references_->Read(record.ReferencedFile(*references_), piece.range.offset,
                                         piece.range.size, take);
  const bool was_read = co_await reading;
  co_return was_read&& piece.done > 0;
}

Task<absl::Status> AsyncIo::RunPiece(Record& record, Piece& piece) {
  const DataTarget target = record.TargetOf(user_, piece.range);
  if (record.write()) {
    Task<absl::StatusOr<WriteResult>> task = files_.data().Write(target, piece.part);
    absl::StatusOr<WriteResult> result = co_await task;
    if (!result.ok()) co_return result.status();
    piece.done = result->count;
    piece.committed = result->committed;
    co_return result->later;
  }
  Task<absl::StatusOr<ReadResult>> task = files_.data().Read(target, piece.part);
  absl::StatusOr<ReadResult> result = co_await task;
  if (!result.ok()) co_return result.status();
  piece.done = result->count;
  piece.eof = result->eof;
  co_return absl::OkStatus();
}

Task<absl::Status> AsyncIo::RunStaged(Record& record, Piece& piece) {
  const DataTarget target = record.TargetOf(user_, piece.range);
  BufferPool& buffers = files_.buffers();
  const BufferUse use = record.write() ? BufferUse::kWriteSource : BufferUse::kReadTarget;
  absl::StatusOr<BufferLease> lease = co_await buffers.Acquire(use, piece.range.size);
  if (!lease.ok()) co_return lease.status();
  if (record.given_up()) co_return absl::CancelledError("cancelled by the application");
  const LeasePart part{&buffers, &*lease, 0, piece.range.size};
  if (record.write()) {
    piece.part.CopyTo(part.bytes());
    Task<absl::StatusOr<WriteResult>> task = files_.data().Write(target, part);
    absl::StatusOr<WriteResult> result = co_await task;
    if (!result.ok()) co_return result.status();
    piece.done = result->count;
    piece.committed = result->committed;
    co_return result->later;
  }
  Task<absl::StatusOr<ReadResult>> task = files_.data().Read(target, part);
  absl::StatusOr<ReadResult> result = co_await task;
  if (!result.ok()) co_return result.status();
  if (record.given_up()) co_return absl::CancelledError("cancelled by the application");
  piece.part.Fill(part.bytes().first(result->count));
  piece.done = result->count;
  piece.eof = result->eof;
  co_return absl::OkStatus();
}

}  // namespace dafs::client
