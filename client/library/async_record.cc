#include "client/library/async_record.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/library/call_name.h"
#include "client/memory/remote_access.h"

namespace dafs::client {
namespace {

// The same error with the names of the call and of the file.
absl::Status Named(Files& files, bool write, const IoFile& file, const FileRange& range,
                   const absl::Status& status) {
  return NameCall(files,
                  absl::StrCat(write ? "write " : "read ", range.size, " at ", range.offset, " of"),
                  file.name, status);
}

}  // namespace

void AsyncRecord::Start(bool write, IoFile& file, std::span<const MemorySegment> segments,
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
  total_ = 0;
  for (const FileRange& range : ranges) total_ += range.size;
  gap_ = total_;
  eof_ = false;
  committed_ = wire::StableHow::kFileSync;
  error_ = absl::OkStatus();
  UserMemory& memory = shared_.files.buffers().user_memory();
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
  ++file.outstanding;
  ++shared_.outstanding;
  group.Issued();
}

bool AsyncRecord::Next(uint32_t most, AsyncPiece& piece) {
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

void AsyncRecord::Finished(const AsyncPiece& piece, absl::Status status) {
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

void AsyncRecord::LaneEnded() {
  if (--lanes_ > 0) return;
  if (state_ == State::kCollected) {
    Free();
  } else if (state_ == State::kOut && !held()) {
    LetGo();
  }
}

// Nothing holds the memory: it has ended, or a cancelled I/O can end now.
void AsyncRecord::LetGo() {
  if (state_ != State::kOut) return;
  if (lanes_ == 0) {
    if (gap_ > next_.start) {  // not all of it was issued
      gap_ = next_.start;
      error_ = absl::CancelledError("cancelled by the application");
      failed_ = ranges_[0];
    }
    End(error_.ok() ? absl::OkStatus() : Named(shared_.files, write_, *file_, failed_, error_));
  } else if (given_up()) {
    gap_ = 0;
    End(Named(shared_.files, write_, *file_, ranges_[0],
              absl::CancelledError("cancelled by the application")));
  }
}

void AsyncRecord::Cancel() {
  if (state_ != State::kOut) return;
  GiveUp();
  if (!held()) LetGo();
}

void AsyncRecord::End(absl::Status status) {
  state_ = State::kEnded;
  error_ = std::move(status);
  UserMemory& memory = shared_.files.buffers().user_memory();
  for (size_t i = 0; i < segment_count_; ++i) memory.EndUse(segments_[i].handle);
  if (long_lists_) memory.EndLongLists();
  --file_->outstanding;
  --shared_.outstanding;
  file_ = nullptr;
  GiveUp();  // a lane of a cancelled I/O may still run
  group_->Ended(*this);
}

void AsyncRecord::Collect(IoCompletion& out) {
  out.id = id();
  out.cookie = options_.cookie;
  out.status = std::move(error_);
  out.count = gap_;
  out.eof = eof_;
  out.committed = committed_;
  state_ = State::kCollected;
  if (lanes_ == 0) Free();
}

void AsyncRecord::Free() {
  state_ = State::kFree;
  shared_.free.push_back(this);
}

ReferenceReads::File AsyncRecord::ReferencedFile(ReferenceReads& references) const {
  if (file_->referenced_as == 0) file_->referenced_as = references.NewFile();
  return {file_->referenced_as, handle_, state_id_};
}

}  // namespace dafs::client
