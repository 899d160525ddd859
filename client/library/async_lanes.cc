#include "client/library/async_lanes.h"

#include <utility>

#include "client/recovery/calls/data_parts.h"

namespace dafs::client {

Task<void> AsyncLanes::Run(AsyncRecord& record) {
  for (;;) {
    const uint32_t most =
        record.write() ? files_.transfers().write_bytes() : files_.transfers().read_bytes();
    AsyncPiece piece;
    if (!record.Next(most, piece)) break;
    if (references_ != nullptr && !record.write()) {
      Task<bool> reading = ReadByReference(record, piece);
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

bool AsyncLanes::Stages(const AsyncRecord& record, uint32_t size) const {
  if (record.registered()) return false;
  const ClientOptions& options = files_.client().options();
  return size > (record.write() ? options.inline_write_bytes : options.inline_read_bytes);
}

Task<bool> AsyncLanes::ReadByReference(AsyncRecord& record, AsyncPiece& piece) {
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

Task<absl::Status> AsyncLanes::RunPiece(AsyncRecord& record, AsyncPiece& piece) {
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

Task<absl::Status> AsyncLanes::RunStaged(AsyncRecord& record, AsyncPiece& piece) {
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
