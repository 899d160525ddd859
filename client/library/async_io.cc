#include "client/library/async_io.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/library/async_lanes.h"
#include "client/library/async_record.h"
#include "client/library/call_name.h"
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

}  // namespace

AsyncIo::AsyncIo(Files& files, const Identity& user, uint32_t most_out)
    : files_(files),
      shared_(std::make_unique<AsyncShared>(AsyncShared{files, {}, 0})),
      lanes_(std::make_unique<AsyncLanes>(files, user)) {
  records_.reserve(most_out);
  shared_->free.reserve(most_out);
  for (uint32_t i = 0; i < most_out; ++i) {
    records_.push_back(std::make_unique<AsyncRecord>(*shared_, i));
  }
  for (uint32_t i = most_out; i-- > 0;) shared_->free.push_back(records_[i].get());
}

AsyncIo::~AsyncIo() {
  for (const std::unique_ptr<AsyncRecord>& record : records_) {
    if (record->state() == AsyncRecord::State::kEnded) record->Forget();
    DAFS_CHECK(record->state() != AsyncRecord::State::kOut && record->lanes() == 0,
               "a session ends before its I/O");
  }
}

size_t AsyncIo::outstanding() const { return shared_->outstanding; }

void AsyncIo::ReadByReference(ReferenceReads* references) { lanes_->UseReferences(references); }

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
  if (shared_->free.empty()) {
    return NameCall(files_, write ? "write of" : "read of", file.name,
                    absl::ResourceExhaustedError(absl::StrCat(
                        records_.size(), " I/Os are outstanding or not yet collected")));
  }
  AsyncRecord& record = *shared_->free.back();
  shared_->free.pop_back();
  record.Start(write, file, segments, ranges, group, options);
  const IoId id = record.id();
  record.AddLane();  // keeps it from ending below
  for (uint32_t i = 0; i < kMostLanes && record.has_more() && !record.given_up(); ++i) {
    record.AddLane();
    Start(lanes_->Run(record));
  }
  record.LaneEnded();
  return id;
}

AsyncRecord* AsyncIo::Find(IoId id) {
  const auto index = static_cast<size_t>(id.value & 0xffffffff);
  if (index >= records_.size()) return nullptr;
  AsyncRecord& record = *records_[index];
  const bool there =
      record.state() == AsyncRecord::State::kOut || record.state() == AsyncRecord::State::kEnded;
  return there && record.id() == id ? &record : nullptr;
}

absl::StatusOr<IoCompletion> AsyncIo::Wait(IoId id) {
  AsyncRecord* record = Find(id);
  if (record == nullptr) return absl::NotFoundError("wait: no such I/O is outstanding");
  while (record->state() == AsyncRecord::State::kOut) {
    files_.loop().RunOnce(absl::InfiniteDuration());
  }
  IoCompletion completion;
  record->Forget();
  record->Collect(completion);
  return completion;
}

absl::Status AsyncIo::Cancel(IoId id) {
  AsyncRecord* record = Find(id);
  if (record == nullptr) return absl::NotFoundError("cancel: no such I/O is outstanding");
  record->Cancel();
  return absl::OkStatus();
}

}  // namespace dafs::client
