#include "fuse/operations/files/write.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fuse/files/commit_file.h"
#include "fuse/kernel/attributes.h"
#include "runtime/log/log.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

void ReplyWritten(Call& call, uint32_t size) {
  fuse_write_out out = {.size = size, .padding = 0};
  call.Reply({AsBytes(out)});
}

}  // namespace

Task<void> WriteOperations::WriteData(const OpenState& open, const client::BufferLease& lease,
                                      Transfer& transfer) {
  while (transfer.done < transfer.size) {
    absl::StatusOr<client::WriteResult> result =
        co_await files_.Of(*open.opener)
            .data()
            .Write(*open.opener, open.handle, open.state_id, transfer.offset + transfer.done, lease,
                   transfer.done, transfer.size - transfer.done, transfer.stability,
                   transfer.wants_after ? &transfer.after : nullptr);
    if (result.ok() && result->count == 0) {
      transfer.failed = absl::InternalError("write: nothing taken");
    }
    if (!result.ok()) transfer.failed = result.status();
    if (!transfer.failed.ok()) co_return;
    open.writes->NoteWrite();
    transfer.done += result->count;
  }
}

// The kernel's offset is its idea of the end of the file, which only the server knows. The kernel
// requests the size again after every write, so the offset of the data is not returned.
Task<void> WriteOperations::AppendData(const OpenState& open, const client::BufferLease& lease,
                                       Transfer& transfer) {
  // An append is at least DATA_SYNC; the server's reply says whether it is committed.
  const wire::StableHow stability = transfer.stability == wire::StableHow::kUnstable
                                        ? wire::StableHow::kDataSync
                                        : wire::StableHow::kFileSync;
  while (transfer.done < transfer.size) {
    const uint32_t part =
        std::min(transfer.size - transfer.done, files_.Of(*open.opener).transfers().append_bytes());
    absl::StatusOr<client::AppendResult> result =
        co_await files_.Of(*open.opener)
            .data()
            .Append(*open.opener, open.handle, open.state_id, lease, transfer.done, part,
                    stability);
    // The server's limit is lower than assumed; append_bytes() has changed.
    if (wire::DafsFromStatus(result.status()) == wire::DafsStatus::kWriteTooBig &&
        part > files_.Of(*open.opener).transfers().append_bytes()) {
      continue;
    }
    if (!result.ok()) {
      transfer.failed = result.status();
      co_return;
    }
    open.writes->NoteWrite();
    transfer.done += part;
  }
}

// Sends a piece to the server, and records the result in the inode table.
Task<WriteOperations::Transfer> WriteOperations::SendPiece(WritePiece& piece,
                                                           wire::StableHow stability, bool appends,
                                                           bool may_ask) {
  Transfer transfer;
  transfer.offset = piece.offset;
  transfer.size = piece.size;
  transfer.stability = stability;
  if (appends) {
    co_await AppendData(*piece.open, piece.lease, transfer);
  } else {
    piece.lease.Seal();
    transfer.wants_after = may_ask && context_.attributes.WantsAfterWrite();
    co_await WriteData(*piece.open, piece.lease, transfer);
  }
  context_.attributes.EndWrite(piece.open->nodeid, piece.change, std::move(transfer.after));
  co_return transfer;
}

// write(2) returns the number of bytes written. For pages of a mapping the kernel accepts only an
// error, not a count, and reports it by the next fsync, msync or close.
void WriteOperations::Reply(Call& call, const Transfer& transfer, bool from_cache) {
  if (!transfer.failed.ok() && (from_cache || transfer.done == 0)) {
    call.ReplyStatus(transfer.failed);
  } else {
    ReplyWritten(call, transfer.done);
  }
}

// With a session for each user. The kernel's request was read into a buffer of the mount's session,
// before its opener was known. The data is copied to one of the opener's session, which is the only
// one that the server may read from. False: the call was answered.
Task<bool> WriteOperations::TakeToUser(Call& call, const OpenState& open, uint32_t size) {
  while (open.writes->ExchangeUser(open.opener->uid)) {  // another user may write meanwhile
    Task<void> preparing = context_.BeforeDataChange(*open.opener, open.nodeid, open.handle);
    co_await preparing;
    if (call.answered()) co_return false;  // its caller was killed while it waited
  }
  client::Files& files = files_.Of(*open.opener);
  if (&files == &files_.mount()) co_return true;
  absl::StatusOr<client::BufferLease> lease =
      co_await files.buffers().Acquire(client::BufferUse::kWriteSource, size);
  if (!lease.ok()) {
    call.ReplyStatus(lease.status());
    co_return false;
  }
  std::memcpy(lease->payload(), call.lease().payload(), size);
  call.lease() = *std::move(lease);
  co_return true;
}

bool WriteOperations::UsesWriteBehind(const fuse_write_in& write, const OpenState& open) const {
  constexpr uint32_t kAtOnce = O_APPEND | O_DIRECT | O_SYNC | O_DSYNC;
  return WritesBehind(state_.options) && streams_.enabled() && write.size > 0 &&
         (write.flags & kAtOnce) == 0 && (write.write_flags & FUSE_WRITE_CACHE) == 0 &&
         !open.writes->doubtful() && !open.writes->has_direct_opens();
}

Task<void> WriteOperations::WriteBehind(Call& call, std::shared_ptr<OpenState> open,
                                        uint64_t offset, uint32_t size) {
  std::span<const std::byte> data(call.lease().payload(), size);
  if (const WritePiece* const joined = streams_.Join(*open, offset, data, state_.write_behind)) {
    state_.live_files.Lengthen(joined->live_slot, joined->size);
    ReplyWritten(call, size);
    co_return;
  }
  while (!state_.write_behind.Begin(open->nodeid, offset, size)) {
    co_await context_.pending.Drained(open->nodeid);
    // Its caller was killed, or the mount has ended.
    if (call.answered() || context_.pending.closed()) co_return;
  }
  WritePiece piece;
  piece.offset = offset;
  piece.size = size;
  piece.lease = std::move(call.lease());
  piece.change = context_.attributes.BeginWrite(open->nodeid);
  piece.open = std::move(open);
  NoteLostData(files_, *piece.open).IgnoreError();       // in the background
  const bool early = !piece.open->writes->doubtful() &&  // writes it waited for may have failed
                     state_.live_files.PutPiece(*piece.open, offset, {piece.lease.payload(), size},
                                                &piece.live_slot);
  if (early && streams_.Keep(piece)) {
    ReplyWritten(call, size);
    co_return;
  }
  Call* waits = &call;
  if (early && streams_.HasRoom()) {
    streams_.Exchange(piece);
    ReplyWritten(call, size);
    waits = nullptr;
  } else {
    state_.live_files.Drop(std::exchange(piece.live_slot, 0));  // the kernel sends it again
  }
  co_await SendPieces(std::move(piece), waits);
}

// Sends `piece`, then the data that was gathered meanwhile, until none is left. `waits` is the call
// to answer when the server has `piece`; null if it was answered.
Task<void> WriteOperations::SendPieces(WritePiece piece, Call* waits) {
  const std::shared_ptr<OpenState> open = piece.open;
  streams_.Begin(*open);
  for (;;) {
    Task<Transfer> carrying =
        SendPiece(piece, wire::StableHow::kUnstable, /*appends=*/false, /*may_ask=*/true);
    Transfer transfer = co_await carrying;
    if (waits != nullptr) {
      Reply(*std::exchange(waits, nullptr), transfer, /*from_cache=*/false);
    } else if (!transfer.failed.ok()) {
      FailLate(piece, transfer);
    }
    state_.live_files.Drop(piece.live_slot);
    state_.write_behind.End(open->nodeid, piece.offset);
    std::optional<WritePiece> next = streams_.Next(*open);
    if (!next.has_value()) co_return;
    piece = *std::move(next);
  }
}

// Handles the failure of a write that was answered before. The next fsync or close of each
// descriptor reports the error. The kernel's cached pages are invalidated. No write is answered
// early until one has succeeded.
void WriteOperations::FailLate(const WritePiece& piece, const Transfer& transfer) {
  const bool first = !piece.open->writes->doubtful();
  piece.open->writes->NoteFailure(transfer.failed);
  state_.live_files.NoteFailure(*piece.open);
  if (state_.notifier != nullptr) state_.notifier->DropPages(piece.open->nodeid, [] {});
  if (!first) return;  // log one line for each failure that the program sees
  const DentryName dentry = state_.caches.inodes.LatestDentryOf(piece.open->nodeid);
  LogError(absl::StrCat(state_.options.source.text, ": ",
                        dentry.name.empty() ? "a file without a name" : dentry.name, ": ",
                        piece.size - transfer.done, " bytes at ", piece.offset + transfer.done,
                        " could not be written: ", transfer.failed.message(),
                        "; the next fsync or close of the file fails"));
}

Task<void> WriteOperations::Write(Call& call) {
  RequestReader in = call.reader();
  auto write = in.Take<fuse_write_in>();
  uint32_t size = call.header().len - static_cast<uint32_t>(kWriteHeaderBytes);
  if (!in.ok() || write.size != size || !call.lease()) {
    call.ReplyErrno(EINVAL);
    co_return;
  }
  std::shared_ptr<OpenState> open = state_.open_files.Find(write.fh);
  if (open == nullptr) {
    call.ReplyErrno(EBADF);
    co_return;
  }
  if (files_.has_users()) {
    Task<bool> entering = TakeToUser(call, *open, size);
    if (!co_await entering) co_return;
  }
  if (UsesWriteBehind(write, *open)) {
    co_await WriteBehind(call, open, write.offset, size);
    co_return;
  }
  co_await context_.pending.Drained(open->nodeid);
  if (call.answered()) co_return;  // its caller was killed while it waited
  WritePiece piece;
  piece.open = open;
  piece.offset = write.offset;
  piece.size = size;
  piece.lease = std::move(call.lease());
  piece.change = context_.attributes.BeginWrite(open->nodeid);
  // Pages of a mapping have fixed offsets, even if the descriptor was opened to append.
  const bool from_cache = (write.write_flags & FUSE_WRITE_CACHE) != 0;
  const bool appends = (write.flags & O_APPEND) != 0 && !from_cache;
  Task<Transfer> carrying =
      SendPiece(piece, StabilityFromFlags(write.flags), appends, /*may_ask=*/!from_cache);
  Reply(call, co_await carrying, from_cache);
}

}  // namespace dafs::fuse
